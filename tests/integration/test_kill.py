"""Killed, stopped, out of room, robbed: nothing acknowledged is lost or counts twice.

Short forms of ``make kill``.
"""

from pathlib import Path

import pytest

from fedview.report.history import downtimes
from fedview.results import Results
from tests.integration.kill import (
    CLIENTS,
    MountError,
    full_disk,
    kill_again_and_again,
    lost_states,
    pause,
    read_only_disk,
)
from tools.books import Books

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def sound(books: Books) -> None:
    assert books.balance, books
    assert books.acknowledged > 10


@pytest.mark.parametrize(
    ("kills", "clients"), [pytest.param(1, 2, marks=pytest.mark.quick), (6, CLIENTS)]
)
def test_kills_of_server_and_clients_lose_and_double_nothing(
    kills: int, clients: int, tmp_path: Path
) -> None:
    books, fire = kill_again_and_again(tmp_path / "fed", kills, 1, clients)
    sound(books)
    assert fire.done.total() == kills
    gaps = downtimes(Results(tmp_path / "fed" / "run"))
    assert {gap.how for gap in gaps} == {"killed"}
    assert all(gap.start < gap.end for gap in gaps)


def test_a_server_and_a_client_that_stand_still_go_on_where_they_were(
    tmp_path: Path,
) -> None:
    sound(pause(tmp_path / "fed", seconds=2.0, seed=1, clients=4))


def test_states_that_are_deleted_rolled_back_or_copied_double_nothing(
    tmp_path: Path,
) -> None:
    sound(lost_states(tmp_path / "fed", seed=1, clients=4))


def test_a_server_whose_disk_is_full_keeps_what_it_has_and_goes_on(
    tmp_path: Path,
) -> None:
    try:
        sound(full_disk(tmp_path / "fed", seconds=1.5, seed=1, clients=4))
    except MountError as error:
        pytest.skip(str(error))


def test_a_server_whose_disk_is_read_only_says_so_and_comes_back(
    tmp_path: Path,
) -> None:
    try:
        sound(read_only_disk(tmp_path / "fed", seed=1, clients=4))
    except MountError as error:
        pytest.skip(str(error))
