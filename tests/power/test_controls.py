"""What would be lost without each sync: the checker must see it, or the sync is none.

The sites are read from the source, so that a new one without effect fails here.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.power.cuts import SPITEFUL, Recording, recorded
from tests.power.mistakes import MISTAKES
from tests.power.recorder import compiler
from tests.power.sites import pragmas, sync_sites

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler"),
    pytest.mark.slow,
]
SITES = sorted({site.label for site in sync_sites()})
# What SQLite syncs with synchronous=FULL; its rollback journal is used only while the
# file is made.
OF_SQLITE = [
    "SQLite: journal.sqlite3",
    "SQLite: journal.sqlite3-wal",
    "SQLite: state.sqlite3-wal",
]
# SQLite syncs the name of its log too, and goes on if that fails.
TWICE = {
    "fedrun/sqlite.py:connect_to_write: sync_folder(file.absolute().parent)": (
        "SQLite: a folder"
    )
}
# Files whose loss costs no promise, by what sets ``synchronous`` there.
WITHOUT_PROMISE = {"fedrun/traffic_file.py": "counts bytes for a report"}
CAUGHT_BY = {  # the story that shows a mistake, if not `rows`
    "payload_synced_after_its_row": "segments",
    "segment_recycled_before_its_rows_let_go": "retention",
    "snapshots_removed_before_the_cut": "damage",
}


@pytest.fixture(scope="module")
def recordings() -> Iterator[list[Recording]]:
    with ExitStack() as stack:
        stories = ("rows", "segments", "kills", "copies", "damage")
        yield [stack.enter_context(recorded(story, 1)) for story in stories]


def test_every_site_is_run_through(recordings: list[Recording]) -> None:
    assert len(SITES) > 10
    assert set().union(*(recording.sites() for recording in recordings)) == set(SITES)


@pytest.mark.parametrize("label", [*SITES, *OF_SQLITE])
def test_a_sync_that_is_left_out_is_missed(
    label: str, recordings: list[Recording]
) -> None:
    ignored = {label, TWICE.get(label, label)}
    assert any(
        recording.cut(
            1, seed=1, ignored=ignored, choices=(SPITEFUL,), most=1
        ).violations
        for recording in recordings
    ), f"no cut without {label} did any harm"


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_settings_or_order_is_caught(name: str) -> None:
    with recorded(CAUGHT_BY.get(name, "rows"), 1, name) as recording:
        assert recording.cut(1, seed=1, most=1).violations


@pytest.mark.quick
def test_every_setting_of_synchronous_is_tried() -> None:
    assert pragmas() - WITHOUT_PROMISE.keys() == {
        "fedrun/sqlite.py",  # journal_synchronous_..., client_synchronous_...
        "fedrun/journal/database.py",  # of a copy, which its caller syncs
    }
