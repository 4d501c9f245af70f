"""Natural clients."""

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import by_column


def test_whoever_produced_a_row_holds_it() -> None:
    parts = by_column(["bob", "ann", "bob", "eve", "ann"])
    assert [part.tolist() for part in parts] == [[1, 4], [0, 2], [3]]


def test_ids_may_be_numbers_with_gaps() -> None:
    parts = by_column(np.array([70, 7, 70, 700]))
    assert [part.tolist() for part in parts] == [[1], [0, 2], [3]]


def test_without_rows_there_are_no_clients() -> None:
    with pytest.raises(ConfigError, match="at least one row"):
        by_column([])
