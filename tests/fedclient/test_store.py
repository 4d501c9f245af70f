import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedclient.state.saved_state import TREES
from fedclient.state.store import ClientStore
from fedcore.errors import StateError
from fedcore.measured import Device, Measured
from fedcore.params import content_digest
from fedcore.participant import Ledger, ParticipantState, Pending, Sent
from fedcore.protocol import Abandoned, Held, ModelName, Push, Settled, Verdict
from fedrun.cli.exit_codes import exit_code

E0 = "0" * 16
FRESH = ParticipantState("cid", "run", E0)


def vector(value: float) -> Any:
    """A small model."""
    return np.full(5, value, np.float32)


def pending(seq: int, payload: bytes = b"payload") -> Pending:
    """A message in flight."""
    push = Push(
        cid="cid",
        epoch=E0,
        seq=seq,
        base=ModelName(E0, 3),
        payload=payload,
        digest=content_digest(payload),
        settled=Settled(seq - 1, Verdict.ACCEPTED),
        samples=7,
        oldest=ModelName(E0, 1),
        counts=np.array([1, 2]),
        loss=0.5,
        measured=Measured(32, 1.5, None, Device("phone", 8, battery=0.5)),
    )
    return Pending(push, vector(0.25))


FULL = replace(
    FRESH,
    held=Held(E0, 3, "d" * 32),
    public_D=vector(1.0),
    memory_D=vector(2.0),
    seq=4,
    settled=Settled(3, Verdict.REJECTED_STALE),
    pending=pending(4),
    history=(Sent(2, b"two", True), Sent(3, b"three", False)),
    abandoned=(Abandoned("1" * 16, 7), Abandoned("2" * 16)),
    oldest=ModelName(E0, 1),
    ledger=Ledger(accepted=2, capped=0.5),
    work=0.5,
    complaint="once",
)


def plain(value: Any) -> Any:
    """A state in a form that can be compared."""
    match value:
        case np.ndarray():
            return value.tolist()
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return type(value).__name__, [plain(inner) for inner in value]
        case _:
            return value


def same(one: ParticipantState | None, other: ParticipantState | None) -> bool:
    """Whether two states say the same."""
    if one is None or other is None:
        return one is other
    return bool(plain(asdict(one)) == plain(asdict(other)))


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[ClientStore]:
    """A store, and others may use the folder afterwards."""
    store = ClientStore(folder)
    try:
        yield store
    finally:
        store.close()


def loaded(folder: Path) -> ParticipantState | None:
    """What is in a folder."""
    with opened(folder) as store:
        return store.load()


def saved(folder: Path, *states: ParticipantState) -> Path:
    """A folder in which these states were saved one after the other."""
    with opened(folder) as store:
        for state in states:
            store.save(state)
    return folder


def damaged(folder: Path, statement: str, *values: Any) -> Path:
    """The folder after somebody wrote into its file."""
    database = sqlite3.connect(folder / "state.sqlite3")
    with database:
        database.execute(statement, values)
    database.close()
    return folder


def refusal(folder: Path) -> str:
    """Why the state in a folder cannot be used."""
    with pytest.raises(StateError) as caught:
        loaded(folder)
    assert exit_code(caught.value) == 74
    assert str(folder) in str(caught.value)
    return str(caught.value)


def checked(store: ClientStore) -> set[str]:
    """All that has a checksum."""
    return {key for (key,) in store._db.execute("SELECT key FROM checks")}


def parts(store: ClientStore) -> set[str]:
    """All that is in a store."""
    query = """
        SELECT 'facts/' || key FROM facts UNION ALL
        SELECT 'vectors/' || key FROM vectors UNION ALL
        SELECT 'history/' || seq FROM history
    """
    return {key for (key,) in store._db.execute(query)}


UINT64 = st.integers(0, 2**64 - 1)
states = st.builds(
    replace,
    st.just(FRESH),
    public_D=st.none() | st.floats(width=32, allow_nan=False).map(vector),
    memory_D=st.none() | st.floats(width=32, allow_nan=False).map(vector),
    held=st.none()
    | st.builds(Held, st.just(E0), st.integers(0, 9), st.just("d" * 32), UINT64),
    seq=UINT64,
    pending=st.none() | st.builds(pending, st.integers(1, 9), st.binary(max_size=9)),
    history=st.lists(
        st.builds(Sent, st.integers(1, 9), st.binary(max_size=3), st.booleans()),
        unique_by=lambda sent: sent.seq,
        max_size=4,
    ).map(lambda sent: tuple(sorted(sent, key=lambda one: one.seq))),
    controlled=st.none()
    | st.fixed_dictionaries(
        {"bandwidth": st.tuples(st.floats(0, 1), st.integers(0, 9))}
    ),
    patch=st.integers(0, 9),
    work=st.floats(0, 1),
    left=st.booleans(),
)


def test_a_fresh_folder_holds_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path / "new") is None


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    assert same(loaded(saved(tmp_path, FULL)), FULL)


@pytest.mark.parametrize("changed", TREES)
def test_what_a_method_keeps_is_written_beside_what_has_not_changed(
    tmp_path: Path, changed: str
) -> None:
    kept: dict[str, Any] = {tree: {"a": vector(1.0)} for tree in TREES}
    grown: dict[str, Any] = {changed: {"a": vector(2.0), "b": vector(3.0)}}
    before = replace(FULL, **kept)
    after = replace(before, **grown)
    assert same(loaded(saved(tmp_path, before, after)), after)


def test_a_message_in_flight_needs_neither_bytes_of_its_own_nor_extras(
    tmp_path: Path,
) -> None:
    push = replace(pending(4).push, oldest=None, counts=None)
    state = replace(FULL, pending=Pending(push, None))
    view = replace(push, payload=memoryview(push.payload))
    folder = saved(tmp_path, replace(state, pending=Pending(view, None)))
    assert same(loaded(folder), state)


def test_a_store_may_be_used_by_one_thread_after_the_other(tmp_path: Path) -> None:
    with opened(tmp_path) as store, ThreadPoolExecutor(1) as other:
        other.submit(store.save, FULL).result()
        assert same(store.load(), FULL)


def test_a_store_that_was_closed_leaves_one_file_that_is_its_users_alone(
    tmp_path: Path,
) -> None:
    store = ClientStore(tmp_path)
    store.save(FULL)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes.keys() > {"state.sqlite3", "state.sqlite3-wal"}
    assert set(modes.values()) == {0o600}
    store.close()
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state.sqlite3"}


def test_what_a_killed_process_wrote_is_on_the_disk_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "live") as store:
        store.save(FULL)
        shutil.copytree(tmp_path / "live", tmp_path / "killed")
    synced: list[str] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    with opened(tmp_path / "killed"):
        assert "state.sqlite3-wal" in synced


@given(st.lists(states, min_size=1, max_size=5))
def test_the_last_state_comes_back_whatever_was_before(
    tmp_path_factory: pytest.TempPathFactory, course: list[ParticipantState]
) -> None:
    folder = tmp_path_factory.mktemp("state")
    assert same(loaded(saved(folder, *course)), course[-1])
    # A store that began with a loaded state writes what has changed since.
    with opened(folder) as store:
        store.load()
        store.save(course[0])
        assert checked(store) == parts(store)  # of what is gone, nothing stays
    assert same(loaded(folder), course[0])


def test_a_kill_between_any_two_statements_leaves_one_of_two_states(
    tmp_path: Path,
) -> None:
    after = replace(
        FULL,
        memory_D=vector(9.0),
        pending=None,
        seq=5,
        history=(Sent(3, b"three", True), Sent(4, b"four", True)),
    )
    copies: list[Path] = []

    def kill(_: str) -> None:
        copy = tmp_path / f"killed-{len(copies)}"
        copies.append(copy)
        shutil.copytree(tmp_path / "state", copy)

    with opened(tmp_path / "state") as store:
        store.save(FULL)
        store._db.set_trace_callback(kill)
        store.save(after)
        store._db.set_trace_callback(None)
        kill("at the end")
    found = [loaded(copy) for copy in copies]
    assert len(found) > 6
    assert all(same(state, FULL) or same(state, after) for state in found)
    assert same(found[0], FULL)
    assert same(found[-1], after)


@given(cut=st.integers(0, 60_000))
def test_a_log_that_was_cut_off_anywhere_leaves_one_of_two_states(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("state")
    after = replace(FULL, memory_D=vector(9.0), seq=5)
    with opened(folder / "live") as store:
        store.save(FULL)
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.save(after)
        shutil.copytree(folder / "live", folder / "killed")
    log = folder / "killed" / "state.sqlite3-wal"
    log.write_bytes(log.read_bytes()[:cut])
    (folder / "killed" / "state.sqlite3-shm").unlink()
    found = loaded(folder / "killed")
    assert same(found, FULL) or same(found, after)


def test_two_clients_may_not_share_a_folder(tmp_path: Path) -> None:
    with opened(tmp_path):
        assert "is in use by another client (process" in refusal(tmp_path)
    assert loaded(tmp_path) is None


def test_a_client_that_forgets_keeps_its_name(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.set_name("ann")
        store.save(FULL)
        store.forget()
        assert (store.load(), store.name()) == (None, "ann")
        store.save(FULL)
        assert same(store.load(), FULL)


# --------------------------------------------------------------------------- damage


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite3").write_bytes(b"no database, " * 1000)
    assert "state.sqlite3 is damaged: file is not a database" in refusal(tmp_path)
    (tmp_path / "state.sqlite3").unlink()
    assert loaded(tmp_path) is None


def test_a_database_whose_pages_are_damaged_is_told(tmp_path: Path) -> None:
    file = saved(tmp_path, FULL) / "state.sqlite3"
    pages = file.read_bytes()
    file.write_bytes(pages[:4096] + b"\xff" * (len(pages) - 4096))
    assert "is damaged: database disk image is malformed" in refusal(tmp_path)


def test_a_name_and_a_key_that_were_damaged_are_told(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.set_name("ann")
        store.key()
        store._db.execute("UPDATE facts SET value = 'bob' WHERE key = 'name'")
        with pytest.raises(StateError, match="the name is not what was written"):
            store.name()
        store._db.execute("DELETE FROM checks")
        store._db.execute("UPDATE facts SET value = 'no' WHERE key = 'client key'")
        with pytest.raises(StateError, match="is damaged: client key"):
            store.key()


@pytest.mark.parametrize(
    ("use", "table"),
    [
        (lambda store: store.load(), "history"),
        (lambda store: store.save(FULL), "history"),
        (lambda store: store.forget(), "history"),
        (lambda store: store.name(), "facts"),
        (lambda store: store.set_name("ann"), "facts"),
    ],
    ids=["load", "save", "forget", "name", "set_name"],
)
def test_whatever_sqlite_complains_of_names_the_file(
    tmp_path: Path, use: Callable[[ClientStore], object], table: str
) -> None:
    said = rf"state\.sqlite3: no such table: {table}"
    with opened(saved(tmp_path, FULL)) as store:
        store._db.execute(f"DROP TABLE {table}")
        with pytest.raises(StateError, match=said) as told:
            use(store)
    assert isinstance(told.value.__cause__, sqlite3.Error)


def test_a_client_that_cannot_forget_goes_on_as_before(tmp_path: Path) -> None:
    with opened(saved(tmp_path, FULL)) as store:
        store.load()
        store._db.execute("ALTER TABLE checks RENAME TO away")
        with pytest.raises(StateError):
            store.forget()
        store._db.execute("ALTER TABLE away RENAME TO checks")
        again = replace(FULL, seq=5)
        store.save(again)
        assert same(store.load(), again)


def test_a_file_system_without_a_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(
            sqlite3, "connect", lambda file, **how: connect(":memory:", **how)
        )
        assert "expected journal_mode wal, got memory" in refusal(tmp_path)
    assert loaded(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"cid": 3}'])
def test_a_state_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    saved(tmp_path, FULL)
    damaged(tmp_path, "UPDATE facts SET value = ? WHERE key = 'state'", text)
    assert "state.sqlite3 is damaged" in refusal(tmp_path)


@pytest.mark.parametrize("field", list(asdict(FULL)))
@pytest.mark.parametrize("value", [[], {}, "x", [1]])
def test_any_damaged_field_is_an_error_or_harmless(
    tmp_path: Path, field: str, value: Any
) -> None:
    saved(tmp_path, FULL)
    with opened(tmp_path) as store:
        query = "SELECT value FROM facts WHERE key = 'state'"
        facts = json.loads(store._db.execute(query).fetchone()[0])
    facts[field] = value
    damaged(tmp_path, "DELETE FROM checks")  # as a program that errs would write it
    statement = "UPDATE facts SET value = ? WHERE key = 'state'"
    damaged(tmp_path, statement, json.dumps(facts))
    with contextlib.suppress(StateError):
        loaded(tmp_path)


def test_a_vector_of_half_a_number_is_told(tmp_path: Path) -> None:
    damaged(saved(tmp_path, FULL), "DELETE FROM checks")
    damaged(tmp_path, "UPDATE vectors SET value = x'000102' WHERE key = 'memory'")
    assert "state.sqlite3 is damaged" in refusal(tmp_path)


def test_a_damaged_message_in_flight_is_told_and_not_sent_for_ever(
    tmp_path: Path,
) -> None:
    damaged(saved(tmp_path, FULL), "DELETE FROM checks")
    damaged(tmp_path, "UPDATE vectors SET value = x'0001' WHERE key = 'payload'")
    assert "the message in flight is not what was written" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("table", "key", "column", "called"),
    [
        ("vectors", "public", "value", "the public model"),
        ("vectors", "memory", "value", "the error memory"),
        ("vectors", "residual", "value", "the memory of the message in flight"),
        ("vectors", "payload", "value", ": the message in flight"),
        ("vectors", "kept", "value", "the kept"),
        ("history", None, "payload", "message 2 of the history"),
        ("facts", "state", "value", "the list of facts"),
    ],
)
def test_a_flipped_bit_is_found_and_named(
    tmp_path: Path, table: str, key: str | None, column: str, called: str
) -> None:
    saved(tmp_path, replace(FULL, kept=vector(3.0)))
    where = f" WHERE key = '{key}'" if key else ""
    database = sqlite3.connect(tmp_path / "state.sqlite3")
    [value, *_] = database.execute(f"SELECT {column} FROM {table}{where}").fetchone()
    database.close()
    flipped: str | bytes
    if isinstance(value, str):
        flipped = value.replace('"seq": ', '"seq": 1', 1)
    else:
        flipped = bytes([value[0] ^ 1]) + value[1:]
    damaged(tmp_path, f"UPDATE {table} SET {column} = ?{where}", flipped)
    assert f"{called} is not what was written" in refusal(tmp_path)


def test_a_state_of_another_schema_is_refused_clearly(tmp_path: Path) -> None:
    damaged(saved(tmp_path, FULL), "PRAGMA user_version = 9")
    assert "has schema 9, this program reads schema 4" in refusal(tmp_path)
    damaged(tmp_path, "PRAGMA user_version = 4")
    assert same(loaded(tmp_path), FULL)


LARGE = np.arange(7, dtype=np.float32)  # 28 bytes: three pieces and a half


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes pieces of 8 bytes."""
    monkeypatch.setattr("fedclient.state.store.PIECE", 8)


@pytest.mark.usefixtures("small_pieces")
def test_large_values_lie_in_pieces_and_come_back(tmp_path: Path) -> None:
    large = replace(FULL, public_D=LARGE, memory_D=LARGE + 1, kept={"a": LARGE[:2]})
    small = replace(large, public_D=LARGE[:1], memory_D=LARGE[:3])
    with opened(tmp_path) as store:
        for state in (large, small, replace(large, public_D=None), large):
            store.save(state)
            found = store.load()
            assert found is not None
            assert same(replace(found, kept=None), replace(state, kept=None))
            assert found.kept["a"].tolist() == [0, 1]
        count = "SELECT count(*) FROM pieces WHERE key = 'public'"
        assert store._db.execute(count).fetchone() == (4,)
        assert found is not None
        assert found.public_D is not None
        assert found.public_D.flags.aligned


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE pieces SET value = x'0000000000000000' WHERE number = 2",
        "DELETE FROM pieces WHERE number = 3",
        "UPDATE pieces SET number = 9 WHERE number = 1",
        "UPDATE pieces SET value = 'ä3456789' WHERE number = 1",
    ],
)
def test_a_damaged_piece_is_found(tmp_path: Path, harm: str) -> None:
    saved(tmp_path, replace(FULL, public_D=LARGE))
    damaged(tmp_path, f"{harm} AND key = 'public'")
    assert "the public model is no" in refusal(tmp_path)


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite3").mkdir()
    assert "state.sqlite3: Is a directory" in refusal(tmp_path)
    (tmp_path / "state.sqlite3").rmdir()
    assert loaded(tmp_path) is None


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    assert "cannot be written" in refusal(tmp_path / "state")


# --------------------------------------------------------------------------- disks


@contextlib.contextmanager
def mounted(folder: Path, *words: str) -> Iterator[None]:
    """Something is mounted on the folder; without leave to do so, skips the test."""
    done = subprocess.run(
        ["mount", *words, str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_and_the_state_before_it_stays(tmp_path: Path) -> None:
    large = replace(FULL, public_D=np.zeros(500_000, np.float32))
    with mounted(tmp_path, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        with opened(tmp_path) as store:
            store.save(FULL)
            with pytest.raises(StateError, match="the disk is full") as caught:
                store.save(large)
            assert exit_code(caught.value) == 74
            again = replace(FULL, seq=5)
            store.save(again)  # once there is room
        assert same(loaded(tmp_path), again)


def test_a_client_cannot_begin_on_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path, "-t", "tmpfs", "-o", "size=4k", "tmpfs"):
        (tmp_path / "ballast").write_bytes(bytes(4096))
        assert "No space left on device" in refusal(tmp_path / "state")


def test_a_read_only_disk_is_told(tmp_path: Path) -> None:
    with mounted(tmp_path, "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs"):
        assert "cannot be written: Read-only file system" in refusal(tmp_path)


def test_keys_are_made_once_and_the_owner_outlives_the_client(tmp_path: Path) -> None:
    with contextlib.closing(ClientStore(tmp_path)) as store:
        key, owner = store.key(), store.owner()
        assert (len(key), len(owner)) == (16, 16)
        assert key != owner
        store.save(FRESH)
        store.set_name("ann")
    with contextlib.closing(ClientStore(tmp_path)) as store:
        assert (store.key(), store.owner()) == (key, owner)
        store.forget()
        assert store.key() != key
        assert (store.owner(), store.name()) == (owner, "ann")


# ------------------------------------------------- what a client algorithm remembers


class Kept(NamedTuple):
    """What a client algorithm keeps from task to task."""

    momentum_D: Any
    both: tuple[Any, ...]
    rounds: int


def test_what_a_client_algorithm_keeps_comes_back_and_changes(tmp_path: Path) -> None:
    first = Kept(vector(1.5), (vector(2.5), vector(-1.0)), 3)
    later = first._replace(momentum_D=vector(4.0), both=(vector(2.5),), rounds=4)
    for course in ([first], [first, later], [later, first]):
        folder = tmp_path / f"{len(course)} {course[-1].rounds}"
        saved(folder, *(replace(FULL, kept=kept) for kept in course))
        with opened(folder) as store:
            found = store.load()
            assert found is not None
            assert plain(found.kept) == plain(tuple(course[-1]))
            assert same(replace(found, kept=None), FULL)
            store.save(replace(found, kept=None))
            query = "SELECT count(*) FROM vectors WHERE key LIKE 'kept%'"
            assert store._db.execute(query).fetchone() == (0,)
        assert same(loaded(folder), FULL)


def test_what_methods_keep_comes_back_in_its_form(tmp_path: Path) -> None:
    factors_RN = np.arange(6, dtype=np.float32).reshape(2, 3)
    sizes = np.arange(3, dtype=np.int64)
    kept, recalled = {"sizes": sizes, "share": 0.5}, (factors_RN, 7, None)
    state = loaded(saved(tmp_path, replace(FULL, kept=kept, recalled=recalled)))
    assert state is not None
    assert (plain(state.kept), plain(state.recalled)) == (plain(kept), plain(recalled))
    assert (state.kept["sizes"].dtype, state.recalled[0].dtype) == (
        np.int64,
        np.float32,
    )


def test_a_store_that_failed_leaves_nothing_of_what_it_could_not_write(
    tmp_path: Path,
) -> None:
    two = replace(FULL, kept=Kept(vector(1.5), (vector(2.5), vector(-1.0)), 3))
    unfit = (Sent(5, None, True),)  # type: ignore[arg-type]
    with opened(tmp_path) as store:
        store.save(two)
        with pytest.raises(StateError):
            store.save(replace(FULL, kept=vector(1.0), history=unfit))
        store.save(FULL)
        assert not {part for part in parts(store) if part.startswith("vectors/kept")}


def test_a_state_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    written: list[str] = []
    with opened(tmp_path) as store:
        store.save(FULL)
        store._db.set_trace_callback(written.append)
        store.save(FULL)
        assert written == []
        store.save(replace(FULL, seq=5))
        told = " ".join(written)
        assert "COMMIT" in told
        assert "INTO vectors" not in told  # what is large and the same stays
        assert "INTO history" not in told
        store._db.set_trace_callback(None)
    assert same(loaded(tmp_path), replace(FULL, seq=5))


def test_a_store_that_failed_keeps_the_state_before_and_can_go_on(
    tmp_path: Path,
) -> None:
    class NotAVector:
        """What SQLite cannot hold."""

    with opened(tmp_path) as store:
        store.save(FULL)
        with pytest.raises(StateError):
            store.save(replace(FULL, public_D=NotAVector()))  # type: ignore[arg-type]
        assert same(store.load(), FULL)
        again = replace(FULL, seq=5)
        store.save(again)
        assert same(store.load(), again)
    assert same(loaded(tmp_path), again)


@pytest.mark.parametrize(("durable", "synchronous"), [(None, 2), (True, 2), (False, 0)])
def test_each_save_is_on_the_disk_unless_that_is_not_asked_for(
    tmp_path: Path, durable: bool | None, synchronous: int
) -> None:
    store = (
        ClientStore(tmp_path)
        if durable is None
        else ClientStore(tmp_path, durable=durable)
    )
    told = [store._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode")]  # fmt: skip
    store.close()
    assert told == [synchronous, "wal"]
