"""The store below the journal: what is durable, what is read, and what is told."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from fedcore.coordinator.events import Lost, Stepped
from fedcore.errors import (
    CorruptJournalError,
    DiskError,
    JournalError,
    JournalVersionError,
)
from fedrun.journal.database import FILE, connect_to_read
from fedrun.journal.rows import LARGE, _bare_checksum
from fedrun.journal.segments import FILE as MARK
from fedrun.journal.segments import Mark, MarkFile, Segments, read_marks
from fedrun.journal.sqlite import HISTORY, SqliteStore
from fedrun.journal.store import Damage, Entry, Loss
from tests.fedrun.journal.runs import change


@contextmanager
def store(folder: Path, **how: bool) -> Iterator[SqliteStore]:
    """A store, which is closed again."""
    one = SqliteStore(folder, **how)
    try:
        yield one
    finally:
        one.close()


def lost(number: int) -> Lost:
    """A small record."""
    return Lost(at=float(number), cid=f"client {number}")


def stepped(number: int, size: int) -> Stepped:
    """A record with a payload of so many bytes."""
    return Stepped(
        at=float(number),
        version=number,
        reason="buffer",
        count=1,
        samples=1.0,
        digest="",
        gap_norm=0.0,
        nbytes=size,
        payload=bytes([number]) * size,
    )


def filled(folder: Path, count: int = 4, size: int = 0, **how: bool) -> Path:
    """A store of so many records, closed again."""
    with store(folder, **how) as one:
        for number in range(1, count + 1):
            one.append([stepped(number, size) if size else lost(number)])
    return folder


def harm(folder: Path, number: int) -> None:
    """This row does not say any more what was written."""
    statement = "UPDATE records SET checksum = checksum + 1 WHERE number = ?"
    change(folder, statement, number)


# ---------------------------------------------------------------------- appending


def test_records_are_numbered_from_one_and_come_back(tmp_path: Path) -> None:
    with store(tmp_path / "run") as one:
        assert one.last == 0
        assert one.append([lost(1), lost(2)]) == 2
        assert one.append([stepped(3, 10)]) == 3
        assert one.last == 3
    with store(tmp_path / "run") as one:
        assert one.last == 3
        found = [Entry(1, lost(1)), Entry(2, lost(2)), Entry(3, stepped(3, 10))]
        assert list(one.entries()) == found
        assert list(one.entries(1)) == found[1:]
        assert list(one.entries(3)) == []
        assert one.find("Lost") == found[:2]
        assert one.find("Cut") == []
        assert one.append([lost(4)]) == 4


def test_without_payloads_records_are_read_unchecked(tmp_path: Path) -> None:
    filled(tmp_path, 2, 10)
    harm(tmp_path, 2)
    with store(tmp_path) as one:
        found = [each.record for each in one.entries(payloads=False)]
        assert found == [
            Stepped(**{**_fields(stepped(number, 10)), "payload": b""})
            for number in (1, 2)
        ]
        with pytest.raises(CorruptJournalError, match="record 2: its checksum is"):
            list(one.entries())
        with pytest.raises(CorruptJournalError, match="record 2: its checksum is"):
            one.find("Stepped")


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def test_payloads_of_some_size_lie_in_segments(tmp_path: Path) -> None:
    assert LARGE == 64 << 10
    with store(tmp_path) as one:
        one.append([stepped(1, LARGE - 1), stepped(2, LARGE), stepped(3, LARGE + 1)])
        assert [each.record for each in one.entries()] == [
            stepped(1, LARGE - 1),
            stepped(2, LARGE),
            stepped(3, LARGE + 1),
        ]
        rows = one._db.rows("SELECT segment, start, size, payload IS NULL FROM records")
    assert rows == [
        (None, None, LARGE - 1, 0),
        (1, 40, LARGE, 1),
        (1, 80 + LARGE, LARGE + 1, 1),
    ]


def test_after_a_restart_payloads_lie_behind_the_others(tmp_path: Path) -> None:
    for number in (1, 2):
        with store(tmp_path) as one:
            one.append([stepped(number, LARGE)])
    with store(tmp_path, read_only=True) as one:
        places = one._db.rows("SELECT segment, start FROM records")
    assert places == [(1, 40), (1, 80 + LARGE)]


def test_facts_are_kept_beside_records_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store(tmp_path) as one:
        assert one.append([lost(1)], {"a": "1", "b": "2"}) == 1
        one.note("c", "3")
        one.note("a", None)
        assert one.read_fact("a") is None
        assert one.read_fact("b") == "2"
        own = {HISTORY: one.read_fact(HISTORY)}
        assert one.facts() == {"b": "2", "c": "3", **own}
        one.append([lost(2)], {"b": "4", "c": None})
        assert one.facts() == {"b": "4", **own}

        def failing(_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        with monkeypatch.context() as broken:
            broken.setattr(one._db, "put_facts", failing)
            with pytest.raises(DiskError, match=r"journal.sqlite3: disk I/O error"):
                one.append([lost(3)], {"b": "5"})
        assert one.last == 2
        assert one.append([lost(3)]) == 3
    with store(tmp_path) as one:
        assert [each.record for each in one.entries()] == [lost(n) for n in (1, 2, 3)]


def test_a_store_is_private_and_waits_for_the_disk(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with store(folder) as one:
        one.append([stepped(1, LARGE)])
        assert one._db.value("PRAGMA synchronous") == 2
        assert one._db.value("PRAGMA journal_mode") == "wal"
        assert one._db.value("PRAGMA user_version") == 3
        assert not one.volatile
        assert folder.stat().st_mode & 0o777 == 0o700
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) == 5
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_store_that_never_waits_stays_one(tmp_path: Path) -> None:
    with store(tmp_path, durable=False) as one:
        one.append([lost(1)])
        assert one._db.value("PRAGMA synchronous") == 0
        assert one.volatile
    with store(tmp_path) as one:
        one.append([stepped(2, LARGE)])
        assert one.volatile
        assert one._segments.headers({})[0].durable == 0
    assert read_marks(tmp_path) == []


def test_any_thread_may_use_a_store(tmp_path: Path) -> None:
    with store(tmp_path) as one:
        thread = threading.Thread(target=one.append, args=[[lost(1)]])
        thread.start()
        thread.join()
        assert one.last == 1


def test_marks_and_headers_say_what_is_durable(tmp_path: Path) -> None:
    with store(tmp_path) as one:
        one.append([lost(1), lost(2)])
        one.append([stepped(3, LARGE), stepped(4, LARGE)])
        history = bytes.fromhex(one.read_fact(HISTORY) or "")
        assert len(history) == 8
        assert read_marks(tmp_path) == [Mark(history, 2), Mark(history, 4)]
        told = [(each.number, each.durable) for each in one._segments.headers({})]
        assert told == [(3, 2), (4, 2)]
        assert all(each.history == history for each in one._segments.headers({}))
    with store(tmp_path) as one:
        one.append([lost(5)])
        assert bytes.fromhex(one.read_fact(HISTORY) or "") == history
    assert Mark(history, 5) in read_marks(tmp_path)


def test_payloads_of_an_append_that_failed_are_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with store(tmp_path) as one:
        for number in (1, 2):
            with monkeypatch.context() as broken:
                broken.setattr(one._segments, "sync", failing)
                for _ in range(2):
                    with pytest.raises(DiskError, match="Input/output error"):
                        one.append([stepped(number, LARGE)])
            one.append([stepped(number, LARGE)])
        places = one._db.rows("SELECT segment, start FROM records")
    assert places == [(1, 40), (1, 80 + LARGE)]


def test_a_transaction_that_failed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object) -> None:
        raise KeyboardInterrupt

    with store(tmp_path) as one:
        for number in (1, 2):
            with monkeypatch.context() as broken:
                broken.setattr(one._rows, "insert", killed)
                with pytest.raises(KeyboardInterrupt):
                    one.append([stepped(number, LARGE)])
            assert one.last == number - 1
            assert one.append([stepped(number, LARGE)]) == number
        assert one._db.rows("SELECT start FROM records") == [(40,), (80 + LARGE,)]


# ------------------------------------------------------------------ what is missing


def test_who_reads_needs_a_store_and_changes_none(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal here"):
        SqliteStore(tmp_path / "none", read_only=True)
    assert not (tmp_path / "none").exists()
    filled(tmp_path / "run")
    with (
        store(tmp_path / "run", read_only=True) as one,
        pytest.raises(DiskError, match="cannot be written"),
    ):
        one.note("a", "1")


@pytest.mark.parametrize("version", [2, 4])
def test_a_store_of_another_schema_is_not_read(tmp_path: Path, version: int) -> None:
    filled(tmp_path)
    change(tmp_path, f"PRAGMA user_version = {version}")
    told = f"has schema {version}, and this program reads schema 3: "
    with pytest.raises(JournalVersionError, match=told):
        SqliteStore(tmp_path)


def test_what_a_killed_process_left_is_synced_before_it_is_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store(tmp_path / "alive") as one:
        one.append([lost(1)])
        shutil.copytree(tmp_path / "alive", tmp_path / "killed")
    synced: list[str] = []
    monkeypatch.setattr("fedrun.durable.sync_file", lambda it: synced.append(it.name))
    with store(tmp_path / "killed", read_only=True):
        assert synced == []
    with store(tmp_path / "killed"):
        assert synced == ["journal.sqlite3-wal"]


def test_a_store_that_cannot_be_used_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 1, LARGE)
    shutil.rmtree(tmp_path / "segments")
    closed: list[SqliteStore] = []
    close = SqliteStore.close

    def noting(one: SqliteStore) -> None:
        closed.append(one)
        close(one)

    monkeypatch.setattr(SqliteStore, "close", noting)
    with pytest.raises(JournalError, match="cannot be read"):
        SqliteStore(tmp_path)
    [one] = closed
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        one._db.connection.execute("SELECT 1")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=r"journal\.sqlite3: "):
        SqliteStore(tmp_path / "file" / "run")


def test_segments_must_be_there_unless_they_are_to_be_cut(tmp_path: Path) -> None:
    filled(tmp_path, 1, LARGE)
    shutil.rmtree(tmp_path / "segments")
    with pytest.raises(JournalError, match=r"000001.segment: cannot be read"):
        SqliteStore(tmp_path)
    with store(tmp_path, lenient=True) as one:
        assert one.last == 1
        with pytest.raises(JournalError, match="cannot be read"):
            one.damage()
        found = one.damage(unreadable=True)
        assert found is not None
        assert (found.number, found.at_end) == (1, True)
    with store(tmp_path, read_only=True) as one:
        assert one.last == 1


@pytest.mark.parametrize(("marked", "known"), [(3, None), (4, None), (5, 5), (9, 9)])
def test_a_mark_beyond_the_end_proves_a_loss(
    tmp_path: Path, marked: int, known: int | None
) -> None:
    filled(tmp_path)
    with store(tmp_path) as one:
        history = bytes.fromhex(one.read_fact(HISTORY) or "")
    (tmp_path / MARK).unlink()
    mark = MarkFile(tmp_path)
    mark.write(Mark(history, marked))
    mark.write(Mark(b"anothers", 99))
    mark.close()
    with store(tmp_path) as one:
        found = one.loss()
    if known is None:
        assert found is None
    else:
        words = f"records up to {known} had been written, and it ends with record 4"
        assert found == Loss(5, known, words)


def test_a_header_beyond_the_end_proves_a_loss(tmp_path: Path) -> None:
    with store(tmp_path) as one:
        one.append([lost(1)])
        one.append([stepped(2, LARGE)])
        one.append([lost(3)])
        one.append([stepped(4, LARGE)])
    (tmp_path / MARK).unlink()
    change(tmp_path, "DELETE FROM records WHERE number = 4")
    with store(tmp_path) as one:
        assert one.loss() is None
    change(tmp_path, "DELETE FROM records WHERE number = 3")
    with store(tmp_path) as one:
        told = "records up to 3 had been written, and it ends with record 2"
        assert one.loss() == Loss(3, 3, told)
    change(tmp_path, "UPDATE facts SET value = ? WHERE key = 'history'", "00" * 8)
    with store(tmp_path) as one:
        assert one.loss() is None  # another history


def test_of_a_store_that_never_waits_nothing_is_missed(tmp_path: Path) -> None:
    filled(tmp_path, durable=False)
    with store(tmp_path) as one:
        history = bytes.fromhex(one.read_fact(HISTORY) or "")
        mark = MarkFile(tmp_path)
        mark.write(Mark(history, 9))
        mark.close()
        assert one.loss() is None


def test_a_store_without_records_that_had_some_is_told(tmp_path: Path) -> None:
    with store(tmp_path) as one:
        with pytest.raises(CorruptJournalError, match="no records, and has held 0; "):
            one.loss()
        mark = MarkFile(tmp_path)
        mark.write(Mark(bytes(8), 7))
        mark.close()
        with pytest.raises(CorruptJournalError, match="no records, and has held 7; "):
            one.loss()
    (tmp_path / MARK).unlink()
    (tmp_path / MARK).mkdir()
    with (
        store(tmp_path) as one,
        pytest.raises(JournalError, match=r"journal.mark: cannot be read: Is a dir"),
    ):
        one.loss()


# ----------------------------------------------------------------- what is damaged


@pytest.mark.parametrize(
    ("harmed", "removed", "found"),
    [
        ([], [], None),
        ([4], [], (4, True, True)),
        ([3, 4], [], (3, True, True)),
        ([3], [], (3, True, False)),
        ([2, 4], [], (2, True, False)),
        ([1], [], (1, True, False)),
        ([], [2], (2, False, False)),
        ([1], [3], (1, True, False)),
        ([], [1], (1, False, False)),
        ([2, 3], [4], (2, True, True)),
    ],
)
def test_the_first_damage_is_told_and_whether_anything_sound_follows(
    tmp_path: Path,
    harmed: list[int],
    removed: list[int],
    found: tuple[int, bool, bool] | None,
) -> None:
    filled(tmp_path)
    for number in harmed:
        harm(tmp_path, number)
    for number in removed:
        change(tmp_path, "DELETE FROM records WHERE number = ?", number)
    with store(tmp_path) as one:
        damage = one.damage()
        if found is None:
            assert damage is None
            return
        assert damage is not None
        assert (damage.number, bool(damage.reason), damage.at_end) == found
        assert one.damage(4) is None
        if harmed == [4]:
            assert one.damage(3) == damage
        if removed == [2]:
            assert damage == Damage(2, "", at_end=False)
            assert one.damage(2) is None
            with pytest.raises(CorruptJournalError, match="record 2 is missing"):
                list(one.entries())
            assert len(list(one.entries(2))) == 2


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("payload = x'00'", "10 bytes of payload expected, 1 found"),
        ("payload = NULL", "10 bytes of payload expected, 0 found"),
        ("kind = 'Lost'", "its checksum is wrong (payload in its row)"),
        ("checksum = 0", "its checksum is wrong (payload in its row)"),
        ("kind = 'Lost', dropped = 1", "its checksum is wrong"),
        ("kind = 'Dreamt', dropped = 1", "Dreamt: unknown kind of record 'Dreamt'"),
        ("body = '{}', dropped = 1", "Stepped: "),
    ],
)
def test_what_is_wrong_with_a_row_is_told(
    tmp_path: Path, statement: str, words: str
) -> None:
    filled(tmp_path, 1, 10)
    change(tmp_path, f"UPDATE records SET {statement}")
    if "dropped" in statement and not words.startswith("its"):
        with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
            row = db.execute("SELECT number, kind, body FROM records").fetchone()
            db.execute("UPDATE records SET checksum = ?", (_bare_checksum(*row),))
    with store(tmp_path) as one:
        damage = one.damage()
        assert damage is not None
        assert damage.reason.startswith(words)


def test_where_a_damaged_payload_lies_is_told(tmp_path: Path) -> None:
    filled(tmp_path, 2, LARGE)
    harm(tmp_path, 2)
    with store(tmp_path) as one:
        found = one.damage()
    where = f"its checksum is wrong (payload in segment 1 at byte {80 + LARGE})"
    assert found == Damage(2, where, at_end=True)


def test_pages_that_do_not_fit_together_are_told(tmp_path: Path) -> None:
    filled(tmp_path, 4, 9000)
    with store(tmp_path) as one:
        one.check_pages()
    db = sqlite3.connect(tmp_path / "journal.sqlite3")
    db.execute("PRAGMA writable_schema=ON")
    db.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'kept'")
    db.commit()
    db.close()
    with (
        store(tmp_path, read_only=True) as one,
        pytest.raises(CorruptJournalError, match="it cannot be repaired: bring back"),
    ):
        one.check_pages()


# --------------------------------------------------------------- what is cut off


def test_what_is_hidden_is_not_read_and_must_be_cut(tmp_path: Path) -> None:
    filled(tmp_path)
    with store(tmp_path) as one:
        one.hide(3)
        assert one.last == 2
        assert [each.number for each in one.entries()] == [1, 2]
        assert [each.number for each in one.find("Lost")] == [1, 2]
        assert one.damage() is None
        with pytest.raises(JournalError, match="its damaged end was not cut off yet"):
            one.append([lost(3)])
        assert one.cut(3, [lost(30), lost(40), lost(50)], {"a": "1"}) == 5
        assert one.append([lost(60)]) == 6
        assert one.read_fact("a") == "1"
    with store(tmp_path) as one:
        found = [each.record for each in one.entries()]
        assert found == [lost(number) for number in (1, 2, 30, 40, 50, 60)]


def test_after_a_cut_numbers_count_something_else(tmp_path: Path) -> None:
    filled(tmp_path, 4, LARGE)
    with store(tmp_path) as one:
        before = one.read_fact(HISTORY) or ""
        assert one.cut(3, [stepped(3, LARGE)]) == 3
        after = one.read_fact(HISTORY) or ""
        assert (len(after), after != before) == (16, True)
        assert Mark(bytes.fromhex(after), 3) in read_marks(tmp_path)
        assert one.loss() is None
        one.append([stepped(4, LARGE)])
        assert Mark(bytes.fromhex(after), 4) in read_marks(tmp_path)
        headers = one._segments.headers({})
        mine = [(each.number, each.durable) for each in headers if
                each.history == bytes.fromhex(after)]  # fmt: skip
        assert (4, 3) in mine
        assert [each.record for each in one.entries(2)] == [
            stepped(3, LARGE),
            stepped(4, LARGE),
        ]


def test_the_room_of_what_was_cut_off_is_used_again(tmp_path: Path) -> None:
    filled(tmp_path, 4, LARGE)
    with store(tmp_path) as one:
        one.cut(3, [lost(3)])
        one.append([stepped(4, LARGE)])
        places = one._db.rows("SELECT segment, start FROM records WHERE number > 3")
    assert places == [(1, 40 + 2 * (40 + LARGE))]


def test_a_cut_without_anything_in_its_place(tmp_path: Path) -> None:
    filled(tmp_path)
    with store(tmp_path) as one:
        assert one.cut(3) == 2
        assert one.append([lost(3)]) == 3


def test_the_end_is_copied_with_its_payloads_as_it_is(tmp_path: Path) -> None:
    with store(tmp_path / "run") as one:
        one.append([lost(1), stepped(2, LARGE), stepped(3, 10), stepped(4, LARGE)])
    harm(tmp_path / "run", 3)
    target = tmp_path / "copy.sqlite3"
    with store(tmp_path / "run") as one:
        one.copy_end(2, target)
        whole = one._db.rows("SELECT * FROM records WHERE number > 1")
    db = sqlite3.connect(target)
    copied = db.execute("SELECT * FROM records ORDER BY number").fetchall()
    db.close()
    payloads = [bytes([2]) * LARGE, bytes([3]) * 10, bytes([4]) * LARGE]
    assert copied == [
        (*row[:3], payload, *row[4:])
        for row, payload in zip(whole, payloads, strict=True)
    ]
    assert target.stat().st_mode & 0o777 == 0o600
    (tmp_path / "run" / "segments" / "000001.segment").unlink()
    with store(tmp_path / "run", lenient=True) as one:
        one.copy_end(4, tmp_path / "other.sqlite3")
    db = sqlite3.connect(tmp_path / "other.sqlite3")
    assert db.execute("SELECT number, payload FROM records").fetchall() == [(4, None)]
    db.close()
    with (
        store(tmp_path / "run", lenient=True) as one,
        pytest.raises(DiskError, match=r"copy.sqlite3: table records already exists"),
    ):
        one.copy_end(4, target)


def test_payloads_whose_segment_is_gone_are_as_if_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Segments.__init__, "__defaults__", (LARGE + 40,))
    filled(tmp_path, 3, LARGE)
    (tmp_path / "segments" / "000002.segment").unlink()
    with store(tmp_path, lenient=True) as one:
        one.forget_unreadable()
        assert one.first_payload() == 2
        assert one.damage() is None
        assert one.payload_bytes() == 2 * LARGE
    with store(tmp_path) as one:
        sizes = [len(getattr(each.record, "payload", b"")) for each in one.entries()]
        assert sizes == [LARGE, 0, LARGE]


def test_payloads_are_dropped_and_their_segments_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Segments.__init__, "__defaults__", (LARGE + 40,))
    with store(tmp_path) as one:
        for number in (1, 2, 3):
            one.append([stepped(number, LARGE), stepped(number, 10), lost(number)])
            assert one.first_payload() == 0
        assert one.payload_bytes() == 3 * LARGE + 30
        one.drop_payloads(0)
        assert one.first_payload() == 0
        one.drop_payloads(5)
        assert one.payload_bytes() == LARGE + 10
        assert one.first_payload() == 5
        sizes = [len(getattr(each.record, "payload", b"")) for each in one.entries()]
        assert sizes == [0, 0, 0, 0, 0, 0, LARGE, 10, 0]
        one.append([stepped(4, LARGE), stepped(5, LARGE)])
        names = sorted(os.listdir(tmp_path / "segments"))
        assert names == [f"00000{number}.segment" for number in (1, 2, 3)]
        assert [each.record for each in one.entries(9)] == [
            stepped(4, LARGE),
            stepped(5, LARGE),
        ]
        assert one.damage() is None


# ------------------------------------------------------------------------- copies


@pytest.mark.parametrize("count", [1, 63, 64, 65, 130])
def test_whole_rows_make_a_copy(tmp_path: Path, count: int) -> None:
    filled(tmp_path / "run", count)
    with store(tmp_path / "run") as one, store(tmp_path / "copy") as copy:
        rows = list(one.whole_rows(0))
        assert [row.number for row in rows] == list(range(1, count + 1))
        assert list(one.whole_rows(count)) == []
        assert list(one.whole_rows(count - 1)) == rows[-1:]
        assert copy.take_over(iter(rows), one.facts()) == count
        assert list(copy.entries()) == list(one.entries())
        assert copy.facts() == one.facts()
        assert copy.last == count


def test_a_copy_has_payloads_and_goes_on_like_what_was_copied(tmp_path: Path) -> None:
    with store(tmp_path / "run") as one, store(tmp_path / "copy") as copy:
        one.append([stepped(1, LARGE), stepped(2, 10), lost(3), stepped(4, LARGE - 1)])
        one.append([stepped(5, LARGE)])
        one.drop_payloads(2)
        assert copy.take_over(one.whole_rows(0), one.facts()) == 5
        assert list(copy.entries()) == list(one.entries())
        assert copy.first_payload() == 2
        one.append([stepped(6, LARGE)])
        assert copy.take_over(one.whole_rows(5), {"a": "1"}) == 6
        history = bytes.fromhex(one.read_fact(HISTORY) or "")
        assert copy.read_fact(HISTORY) == one.read_fact(HISTORY)
        assert copy.read_fact("a") == "1"
        assert copy.take_over([], {"b": "2"}) == 6
        assert read_marks(tmp_path / "copy")[0].history == history
        headers = copy._segments.headers({})
        assert [(each.number, each.durable) for each in headers] == [(5, 0), (6, 5)]
        assert copy.loss() is None
        assert copy.append([lost(7)]) == 7
        rows = "SELECT number, kind, body, size, checksum, dropped FROM records"
        assert copy._db.rows(rows)[:6] == one._db.rows(rows)
        where = "SELECT number FROM records WHERE segment IS NOT NULL"
        assert copy._db.rows(where) == [(5,), (6,)]


def test_what_is_taken_over_or_put_in_the_place_of_others_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "run", 1, LARGE)
    synced: list[int] = []
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    with store(tmp_path / "run") as one, store(tmp_path / "copy") as copy:
        monkeypatch.setattr(os, "fdatasync", sync)
        copy.take_over(one.whole_rows(0), one.facts())
        assert len(synced) == 1
        copy.cut(1, [stepped(1, LARGE)])
        assert len(synced) == 2


def test_damage_and_gaps_are_not_copied(tmp_path: Path) -> None:
    filled(tmp_path)
    harm(tmp_path, 3)
    with store(tmp_path) as one:
        with pytest.raises(CorruptJournalError, match="record 3 cannot be copied: its"):
            list(one.whole_rows(0))
        assert [row.number for row in one.whole_rows(3)] == [4]
    change(tmp_path, "DELETE FROM records WHERE number = 2")
    with (
        store(tmp_path) as one,
        pytest.raises(CorruptJournalError, match="record 2 cannot be copied: it is mi"),
    ):
        list(one.whole_rows(0))


def test_a_payload_that_is_dropped_while_it_is_copied_is_as_dropped(
    tmp_path: Path,
) -> None:
    filled(tmp_path, 3, LARGE)
    with store(tmp_path) as one:
        rows = one.whole_rows(0)
        assert not next(rows).dropped
        one.drop_payloads(3)
        for number in (1, 2, 3):
            place = one._segments.write(b"x" * LARGE, bytes(8), number, 0)
            assert place.segment == 1
        assert [(row.number, row.dropped, row.payload) for row in rows] == [
            (2, True, None),
            (3, True, None),
        ]


# ------------------------------------------------------- where nothing can be written


def test_a_store_can_be_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store(tmp_path / "run") as one:
        one.append([lost(1), lost(2)])
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
    monkeypatch.setattr(os, "access", lambda *_: False)
    for name in ("run", "killed"):
        before = sorted(path.name for path in (tmp_path / name).iterdir())
        with store(tmp_path / name, read_only=True) as one:
            assert [each.record for each in one.entries()] == [lost(1), lost(2)]
        after = sorted(path.name for path in (tmp_path / name).iterdir())
        assert after == before
    (tmp_path / "run" / "journal.sqlite3-wal").touch()
    connect_to_read(tmp_path / "run" / "journal.sqlite3").close()
