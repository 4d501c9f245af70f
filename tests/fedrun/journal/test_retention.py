from pathlib import Path

import pytest

from fedcore.errors import JournalError
from fedrun.journal import Journal, verify
from fedrun.journal.replay import Replay
from fedview.export import export_model
from tests.fedrun.journal.runs import LARGE, Written

NOTHING = {"keep_bytes": 0}


def with_snapshots(folder: Path, count: int, dim: int = 100) -> Written:
    """A run with a snapshot behind every update, which keeps nothing else."""
    run = Written(folder, dim, journal=NOTHING)
    for _ in range(count):
        run.push()
        run.group.snapshot(run.run.journal.store.last)
    return run


def test_payloads_go_once_snapshots_have_them(tmp_path: Path) -> None:
    run = with_snapshots(tmp_path, 6)
    store = run.run.journal.store
    assert store.payload_bytes() < 4 * 500
    assert 0 < store.first_payload() < store.last
    run.close()
    again = Written(tmp_path, journal=NOTHING)
    assert again.digest == run.digest
    again.close()


@pytest.mark.parametrize("ends", ["with a version", "with an update"])
def test_what_is_kept_begins_with_the_oldest_snapshot(
    tmp_path: Path, ends: str
) -> None:
    few = {"kind": "fed_buff", "buffer": 1 if ends == "with a version" else 99}
    run = Written(tmp_path, 100, journal=NOTHING, algorithm={**few, "places": 99})
    store, snapshots = run.run.journal.store, run.run.journal.snapshots
    for _ in range(9):
        run.push()
        run.group.snapshot(store.last)
        oldest = snapshots.numbers()[-3:][0]
        assert oldest - 1 <= store.first_payload() <= oldest
    run.close()


def test_the_kept_snapshots_are_few_and_enough(tmp_path: Path) -> None:
    run = with_snapshots(tmp_path, 10)
    journal = run.run.journal
    numbers = journal.snapshots.numbers()
    assert len(numbers) <= 4
    run.close()
    opened = Journal.open(run.folder)
    found = verify(opened)
    assert (found.digest, found.accepted, found.recomputed) == (run.digest, 10, 0)
    opened.close()


def test_a_damaged_newest_snapshot_is_survived_where_payloads_are_dropped(
    tmp_path: Path,
) -> None:
    run = with_snapshots(tmp_path, 6)
    newest = run.run.journal.snapshots.path(run.run.journal.snapshots.numbers()[-1])
    run.close()
    newest.write_bytes(b"damaged")
    again = Written(tmp_path, journal=NOTHING)
    assert again.digest == run.digest
    again.close()


def test_segments_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedrun.journal.segments.SEGMENT_BYTES", 1 << 17)
    run = Written(tmp_path, LARGE, journal=NOTHING)
    run.run.journal.store._segments._bytes = 1 << 17
    for _ in range(12):
        run.push()
        run.group.snapshot(run.run.journal.store.last)
    assert len(list((run.folder / "segments").glob("*.segment"))) <= 5
    run.close()
    again = Written(tmp_path, LARGE, journal=NOTHING)
    assert again.digest == run.digest
    again.push()
    again.close()


def test_a_replay_needs_all_payloads(tmp_path: Path) -> None:
    run = with_snapshots(tmp_path, 6)
    with pytest.raises(
        JournalError, match=r"were dropped \(journal.keep_bytes, or a repair\)"
    ):
        Replay(run.run.journal)
    run.close()


def test_a_version_whose_payloads_are_gone_cannot_be_exported(tmp_path: Path) -> None:
    run = with_snapshots(tmp_path, 6)
    run.close()
    with pytest.raises(JournalError, match=r"keeps the versions 0 and 4 to 6$"):
        export_model(run.folder, tmp_path / "out.safetensors", "last", 1)
    assert "version 6" in export_model(
        run.folder, tmp_path / "out.safetensors", "last", 6
    )


def test_everything_is_kept_within_the_budget(tmp_path: Path) -> None:
    run = Written(tmp_path)
    for _ in range(6):
        run.push()
        run.group.snapshot(run.run.journal.store.last)
    assert run.run.journal.store.first_payload() == 0
    run.close()
    opened = Journal.open(run.folder)
    assert verify(opened).recomputed == 12
    opened.close()
