"""Damage before the newest snapshot: no model is lost, and each command says so."""

from contextlib import closing
from pathlib import Path

import pytest

from fedcore.errors import CorruptJournalError, JournalError
from fedrun.journal import Journal, backup, repair, restore, verify
from fedrun.run import open_run
from fedview.what_if import compare
from tests.fedrun.journal.runs import LARGE, Written, change, records

UPDATE, CLIENT, LAST = 5, 2, 8  # numbers of records
SPOIL = "UPDATE records SET payload = zeroblob(size) WHERE number = ?"


def covered(folder: Path, dim: int = 100) -> Written:
    """A run of three updates, with a snapshot that holds them all."""
    run = Written(folder, dim)
    for _ in range(3):
        run.push()
    run.group.snapshot(LAST)
    run.push()
    run.close()
    return run


def said(run: Written) -> str:
    """What verify says, and replay as well."""
    with (
        closing(Journal.open(run.folder, read_only=True)) as journal,
        pytest.raises(CorruptJournalError) as caught,
    ):
        verify(journal)
    with pytest.raises(CorruptJournalError) as again:
        compare(run.folder)
    assert str(again.value) in str(caught.value)
    return str(caught.value)


def digest_of(run: Written) -> str:
    """The digest with which the run starts."""
    again = open_run(run.config, 3.0)
    again.journal.close()
    return again.coordinator.state.published.digest


def spoil_segment(run: Written) -> None:
    """Writes into the payload of the second update."""
    content = (run.folder / "segments" / "000001.segment").read_bytes()
    with (run.folder / "segments" / "000001.segment").open("r+b") as file:
        file.seek(content.index(content[44:300], 1000) + 200)
        file.write(b"\xff\xff")


@pytest.mark.parametrize("dim", [100, LARGE])
def test_a_damaged_payload_that_a_snapshot_covers_is_told_and_let_go(
    tmp_path: Path, dim: int
) -> None:
    run = covered(tmp_path, dim)
    if dim == LARGE:
        spoil_segment(run)
    else:
        change(run.folder, SPOIL, UPDATE)
    told = said(run)
    assert f"{run.folder}: record {UPDATE} is damaged: its checksum is wrong" in told
    assert f"the server still starts, with snapshot {LAST}" in told
    assert f"without its payload: fedserver journal repair {run.folder}" in told
    assert digest_of(run) == run.digest
    with pytest.raises(JournalError, match="fedserver journal verify says what can be"):
        backup(run.folder, tmp_path / "copy")
    before = len(records_without_payloads(run))
    done = repair(run.folder, "e" * 16)
    assert f"the payload of record {UPDATE} cannot be read; snapshot {LAST}" in done
    assert repair(run.folder, "e" * 16) == f"{run.folder}: there is nothing to repair"
    assert len(records(run.folder)) == before  # none is cut off
    with closing(Journal.open(run.folder, read_only=True)) as journal:
        found = verify(journal)
    assert (found.digest, found.accepted, found.recomputed) == (run.digest, 4, 0)
    assert digest_of(run) == run.digest
    backup(run.folder, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "again", lambda: "f" * 16)
    with pytest.raises(JournalError, match=r"or a repair\); a replay needs them"):
        compare(run.folder)


def records_without_payloads(run: Written) -> list[object]:
    """The records, read without their payloads."""
    with closing(Journal.open(run.folder, read_only=True)) as journal:
        return list(journal.store.entries(payloads=False))


def test_the_damaged_bytes_are_kept_aside(tmp_path: Path) -> None:
    run = covered(tmp_path)
    change(run.folder, SPOIL, UPDATE)
    change(run.folder, SPOIL, UPDATE - 2)
    assert "the payloads of the records 3 and 5 cannot" in repair(run.folder, "e" * 16)
    [kept] = (run.folder / "cut").iterdir()
    assert kept.name == "000000000003-payloads"
    assert [file.name for file in kept.iterdir()] == ["records.sqlite3"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = replace(body, 'ann', 'eve') "
        f"WHERE number = {CLIENT}",
        "UPDATE records SET body = replace(body, '\"weight\":1.0', '\"weight\":2.0') "
        f"WHERE number = {UPDATE}",
    ],
)
def test_what_a_record_says_cannot_be_repaired_and_the_server_starts(
    tmp_path: Path, statement: str
) -> None:
    run = covered(tmp_path)
    change(run.folder, statement)
    told = said(run)
    assert f"the server still starts, with snapshot {LAST}" in told
    assert "bring back a backup with fedserver restore; repair cannot help" in told
    with pytest.raises(CorruptJournalError) as caught:
        repair(run.folder, "e" * 16)
    assert str(caught.value) == told
    assert digest_of(run) == run.digest
    assert not (run.folder / "cut").exists()


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        (f"DELETE FROM records WHERE number = {UPDATE}", "record 5 is missing"),
        ("UPDATE records SET body = 'x' WHERE number = 5", "record 5 is damaged"),
        ("UPDATE records SET checksum = 0 WHERE number = 1", "record 1 is damaged"),
    ],
)
def test_a_record_without_which_no_server_starts_is_told(
    tmp_path: Path, statement: str, wrong: str
) -> None:
    run = covered(tmp_path)
    change(run.folder, statement)
    told = said(run)
    assert f"{run.folder}: {wrong}" in told
    assert "bring back a backup with fedserver restore, or begin another run" in told
    with pytest.raises(CorruptJournalError, match=wrong):
        repair(run.folder, "e" * 16)


def test_damage_on_both_sides_of_a_snapshot_is_repaired_in_one_go(
    tmp_path: Path,
) -> None:
    run = covered(tmp_path)
    change(run.folder, SPOIL, UPDATE)
    change(run.folder, SPOIL, LAST + 1)
    told = said(run)
    assert f"record {LAST + 1} is damaged" in told  # which stops a start
    assert f"fedserver journal repair {run.folder}" in told
    done = repair(run.folder, "e" * 16)
    assert f"the journal ends with record {LAST} now" in done
    assert f"the payload of record {UPDATE} cannot be read" in done
    with closing(Journal.open(run.folder, read_only=True)) as journal:
        assert verify(journal).versions == 3


def test_damage_behind_a_snapshot_that_can_still_be_read_is_cut_off(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path)
    for number in (4, 6, 8):
        run.push()
        if number != 6:
            run.group.snapshot(number)
    run.close()
    newest = run.run.journal.snapshots.path(8)
    newest.write_bytes(newest.read_bytes()[:-10])
    change(run.folder, SPOIL, UPDATE)
    assert f"fedserver journal repair {run.folder}" in said(run)
    assert "the journal ends with record 4 now" in repair(run.folder, "e" * 16)
    with closing(Journal.open(run.folder, read_only=True)) as journal:
        assert verify(journal).versions == 1
