"""Killed in the middle: nothing acknowledged is lost, and nothing counts twice."""

from pathlib import Path

import pytest

from tests.integration.kill import kill_again_and_again


@pytest.mark.processes
def test_kills_of_server_and_clients_lose_and_double_nothing(tmp_path: Path) -> None:
    books = kill_again_and_again(tmp_path / "fed", kills=4, seed=1)
    assert books.balance, books
    assert books.acknowledged > 50
