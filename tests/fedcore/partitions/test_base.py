"""What all partitioners hand out, and what they remember."""

import numpy as np
import pytest

from fedcore.partitions import dirichlet
from fedcore.partitions.base import NOBODY, REMEMBERED, Parts, _known

PARTS = Parts(np.array([1, 0, NOBODY, 1, 3]), 4)


def test_parts_are_a_sequence_of_ascending_rows() -> None:
    assert len(PARTS) == 4
    assert [part.tolist() for part in PARTS] == [[1], [0, 3], [], [4]]
    assert PARTS[-1].tolist() == [4]
    assert [part.tolist() for part in PARTS[1:3]] == [[0, 3], []]
    assert repr(PARTS) == "Parts(4 clients, 4 rows)"


@pytest.mark.parametrize("client", [4, -5])
def test_there_are_only_so_many_clients(client: int) -> None:
    with pytest.raises(IndexError, match=f"there are 4 clients, no client {client}"):
        PARTS[client]


def test_only_a_few_partitions_are_remembered() -> None:
    for seed in range(REMEMBERED + 3):
        dirichlet(np.arange(40) % 4, clients=4, alpha=1.0, seed=seed)
    assert len(_known) == REMEMBERED


def test_settings_of_another_type_are_other_settings() -> None:
    y = np.arange(40) % 4
    first = dirichlet(y, clients=4, alpha=1.0, seed=1)
    assert dirichlet(y, clients=4, alpha=1.0, seed=True) is not first


def test_labels_may_be_given_by_name_and_are_missed_by_name() -> None:
    y = np.arange(40) % 4
    assert len(dirichlet(y=y, clients=4, alpha=1.0)) == 4
    with pytest.raises(TypeError, match="'y'"):
        dirichlet(clients=4, alpha=1.0)  # type: ignore[call-arg]
