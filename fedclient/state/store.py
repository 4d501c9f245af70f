"""A client's state directory: everything that it must keep, in one SQLite file.

Each save is one transaction that writes only changes, so after a kill the state is the
one before it or the one after it. Every value has a checksum, because a flipped bit in
the error memory would otherwise travel to the server like a learnt value. Large values
are stored in pieces, because SQLite makes two copies of each value and accepts none
above 1 GB.
"""

import contextlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fedwire.keys import cid_of, fresh_key

from fedclient.state.saved_state import (
    TREES,
    facts_of,
    require_whole,
    state_of,
    trees_of,
    vectors_of,
)
from fedcore.errors import IMPOSSIBLE, ProtocolError, StateError
from fedcore.participant import ParticipantState
from fedcore.text import brief
from fedcore.typing import Bytes
from fedrun.json_text import read_json
from fedrun.lock import FolderLock
from fedrun.spill import Spill
from fedrun.sqlite import (
    ERRORS,
    connect_to_write,
    message,
    require_schema,
    transaction,
)

SCHEMA_VERSION = 4
PIECE = 4 << 20  # bytes
_SCHEMA = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE vectors (key TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE history (seq INTEGER PRIMARY KEY, in_model INTEGER, payload BLOB NOT NULL);
CREATE TABLE checks (key TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
CREATE TABLE pieces (
    key TEXT NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (key, number)
);
"""
_FORGET = (
    "DELETE FROM facts WHERE key IN ('state', 'client key')",
    "DELETE FROM vectors",
    "DELETE FROM pieces",
    "DELETE FROM history",
    "DELETE FROM checks WHERE key NOT IN ('facts/name', 'facts/owner key')",
)


class ClientStore:
    """One client's state; no other process may use it at the same time."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._file = folder / "state.sqlite3"
        self.spill = Spill(folder)
        self._lock = FolderLock(folder, StateError, "client")
        try:
            with self._explaining():
                self._db = connect_to_write(
                    self._file,
                    durable=durable,
                    error=StateError,
                    what="a client's state",
                )
        except BaseException:
            self._lock.release()
            raise
        try:
            with self._explaining():
                self._check_version()
        except BaseException:
            self.close()
            raise
        self._saved: ParticipantState | None = None
        self._kept_names: tuple[str, ...] = ()

    def _check_version(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA_VERSION):
            raise StateError(
                f"{self._file} has schema {version}, this program reads schema "
                f"{SCHEMA_VERSION}: use the program that wrote it"
            )
        require_schema(self._db, _SCHEMA if version else "")
        if not version:
            self._db.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
            )

    def load(self) -> ParticipantState | None:
        """Returns the state that was saved last; None in a fresh folder.

        Raises:
            StateError: the file is damaged.
        """
        text = self._fact("state")
        if text is None:
            return None
        with self._explaining():
            vectors: dict[str, Bytes] = dict(
                self._db.execute("SELECT key, value FROM vectors")
            )
            vectors |= self._large()
            sent = self._db.execute(
                "SELECT seq, in_model, payload FROM history ORDER BY seq"
            ).fetchall()
            for key, value in vectors.items():
                self._require(f"vectors/{key}", value)
            for seq, in_model, payload in sent:
                self._require(f"history/{seq}", payload, str(in_model))
        try:
            state = state_of(read_json(text), vectors, sent)
            require_whole(state)
        except IMPOSSIBLE as error:
            why = f"{type(error).__name__}: {brief(str(error))}"
            raise StateError(f"{self._file} is damaged: {why}") from error
        self._saved = state
        self._kept_names = tuple(
            name for name in vectors if name.partition(".")[0] in TREES
        )
        return state

    def spilled(self, state: ParticipantState) -> ParticipantState:
        """Returns the state with its large vectors mapped into memory from files."""
        names, pending = ("public_D", "memory_D"), state.pending
        found: dict[str, Any] = {n: self.spill.move(getattr(state, n)) for n in names}
        if pending is not None and pending.residual_D is not None:
            residual_D = self.spill.move(pending.residual_D)
            if residual_D is not pending.residual_D:
                found["pending"] = replace(pending, residual_D=residual_D)
        if all(value is getattr(state, name) for name, value in found.items()):
            return state
        return replace(state, **found)

    def save(self, state: ParticipantState) -> None:
        """Makes the state durable, if it has changed."""
        if state is self._saved:
            return
        with self._transaction():
            kept_names = self._write(state, self._saved)
        self._saved, self._kept_names = state, kept_names

    def forget(self) -> None:
        """Removes everything but name and owner, so that the client joins anew."""
        with self._transaction():
            for statement in _FORGET:
                self._db.execute(statement)
        self._saved, self._kept_names = None, ()

    def name(self) -> str | None:
        """Returns the client's name, which outlives its id."""
        return self._fact("name")

    def set_name(self, name: str) -> None:
        """Stores the client's name."""
        self._keep("name", name)

    def key(self) -> bytes:
        """Returns the key by which the server identifies this client."""
        return self._secret("client key")

    def owner(self) -> bytes:
        """Returns the key that owns the client's name and outlives the client's key."""
        return self._secret("owner key")

    def _secret(self, which: str) -> bytes:
        """Returns the key of this name; creates and saves one if there is none."""
        kept = self._fact(which)
        if kept is None:
            kept = fresh_key().hex()
            self._keep(which, kept)
        try:
            cid_of(key := bytes.fromhex(kept))
        except (ValueError, ProtocolError) as error:
            raise StateError(f"{self._file} is damaged: {which}: {error}") from error
        return key

    def _fact(self, key: str) -> str | None:
        with self._explaining():
            query = "SELECT value FROM facts WHERE key = ?"
            row = self._db.execute(query, (key,)).fetchone()
            if row is None:
                return None
            text = str(row[0])
            self._require(f"facts/{key}", text.encode(errors="replace"))
            return text

    def _keep(self, key: str, value: str) -> None:
        with self._transaction():
            self._put_fact(key, value)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Makes all changes of the block durable, or none."""
        with self._explaining(), transaction(self._db):
            yield

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turns errors of SQLite and of the system in the block into StateErrors."""
        try:
            yield
        except (*ERRORS, OSError) as error:
            raise self._explain(error) from error

    def close(self) -> None:
        """Releases the folder."""
        self._db.close()
        self._lock.release()

    def _write(
        self, state: ParticipantState, old: ParticipantState | None
    ) -> tuple[str, ...]:
        """Writes the changes; returns the names of the values that methods keep."""
        trees, arrays = trees_of(state)
        self._put_fact("state", json.dumps(facts_of(state, trees, arrays)))
        before = {} if old is None else vectors_of(old)
        for key, value in vectors_of(state).items():
            if old is None or value is not before[key]:
                self._put(key, value)
        for tree in TREES:
            if old is not None and getattr(state, tree) is getattr(old, tree):
                continue
            for name in self._kept_names:
                if name.partition(".")[0] == tree:
                    self._put(name, None)
            for name, array in arrays.items():
                if name.partition(".")[0] == tree:
                    self._put(name, np.asarray(array, order="C"))
        if old is None or state.history != old.history:
            self._write_history(state, old)
        return tuple(arrays)

    def _write_history(
        self, state: ParticipantState, old: ParticipantState | None
    ) -> None:
        before = {} if old is None else {sent.seq: sent for sent in old.history}
        now = {sent.seq: sent for sent in state.history}
        for seq in before.keys() - now.keys():
            self._db.execute("DELETE FROM history WHERE seq = ?", (seq,))
            self._forget_check(f"history/{seq}")
        for seq, sent in now.items():
            if sent != before.get(seq):
                self._db.execute(
                    "INSERT OR REPLACE INTO history VALUES (?, ?, ?)",
                    (seq, sent.in_model, sent.payload),
                )
                self._check(f"history/{seq}", sent.payload, str(int(sent.in_model)))

    def _put(self, key: str, value: Any) -> None:
        for table in ("vectors", "pieces"):
            self._db.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
        if value is None:
            self._forget_check(f"vectors/{key}")
            return
        is_array = isinstance(value, np.ndarray)
        blob = value.reshape(-1).view(np.uint8).data if is_array else value
        if not isinstance(blob, bytes | memoryview) or len(blob) <= PIECE:
            self._db.execute("INSERT INTO vectors VALUES (?, ?)", (key, blob))
        else:
            view = memoryview(blob)
            for number, at in enumerate(range(0, len(view), PIECE)):
                piece = key, number, view[at : at + PIECE]
                self._db.execute("INSERT INTO pieces VALUES (?, ?, ?)", piece)
        self._check(f"vectors/{key}", blob)

    def _large(self) -> dict[str, memoryview]:
        """Returns the large values, each read from its pieces into one block."""
        sizes = self._db.execute(
            "SELECT key, sum(length(CAST(value AS BLOB))) FROM pieces GROUP BY 1"
        )
        found: dict[str, memoryview] = {}
        for key, size in sizes.fetchall():
            at, whole = 0, self.spill.memory(size)
            query = "SELECT value FROM pieces WHERE key = ? ORDER BY number"
            for (piece,) in self._db.execute(query, (key,)):
                self._require_bytes(f"vectors/{key}", piece)
                whole[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                at += len(piece)
            found[key] = whole.data.toreadonly()
        return found

    def _put_fact(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))
        self._check(f"facts/{key}", value.encode())

    # ---------------------------------------------------------------- checksums

    def _check(self, key: str, content: Bytes, more: str = "") -> None:
        """Writes the checksum of a value."""
        check = _checksum(key, content, more)
        self._db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?)", (key, check))

    def _forget_check(self, key: str) -> None:
        self._db.execute("DELETE FROM checks WHERE key = ?", (key,))

    def _require(self, key: str, content: Bytes, more: str = "") -> None:
        """Checks a value against its checksum; an older program wrote no checksums.

        Raises:
            StateError: the value does not match.
        """
        self._require_bytes(key, content)
        query = "SELECT value FROM checks WHERE key = ?"
        row = self._db.execute(query, (key,)).fetchone()
        if row is not None and row[0] != _checksum(key, content, more):
            raise StateError(
                f"{self._file} is damaged: {_word_for(key)} is not what was written; "
                "join again with another --state, or without this one"
            )

    def _require_bytes(self, key: str, content: Any) -> None:
        if not isinstance(content, bytes | memoryview):
            raise StateError(f"{self._file} is damaged: {_word_for(key)} is no bytes")

    def _explain(self, error: Exception) -> StateError:
        text = getattr(error, "strerror", None) or message(error)
        if "malformed" in text or "not a database" in text:
            return StateError(f"{self._file} is damaged: {text}")
        if "full" in text:
            return StateError(f"{self._file}: the disk is full")
        return StateError(f"{self._file}: {text}")


def _checksum(key: str, content: Bytes, more: str) -> int:
    return zlib.crc32(content, zlib.crc32(f"{key}\0{more}\0".encode()))


def _word_for(key: str) -> str:
    """Returns the name of a part of the state for messages."""
    table, _, name = key.partition("/")
    names = {
        "vectors/public": "the public model",
        "vectors/memory": "the error memory",
        "vectors/residual": "the memory of the message in flight",
        "vectors/payload": "the message in flight",
        "facts/state": "the list of facts",
    }
    other = f"message {name} of the history" if table == "history" else f"the {name}"
    return names.get(key, other)
