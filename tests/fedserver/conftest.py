"""A server for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.served import Served, served
from tests.served import alone_and_at_once as alone_and_at_once


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A federation of a hundred values, served."""
    with served(tmp_path) as running:
        yield running
