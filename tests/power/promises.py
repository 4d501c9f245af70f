"""What was promised up to a moment, from the notes in a log."""

import hashlib
import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from fedcore.coordinator.events import Decided
from fedrun.journal.store import from_row

Row = tuple[str, str, str]  # kind, body, payload in hex


def fingerprint(state: Any) -> str:
    """Equal states have equal ones, whatever their vectors are made of."""
    content = hashlib.sha256()
    _add(content, state)
    return content.hexdigest()


def _add(content: Any, value: Any) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, np.ndarray):
        content.update(b"array" + str(value.dtype).encode() + value.tobytes())
    elif isinstance(value, bytes | bytearray | memoryview):
        content.update(b"bytes" + bytes(value))
    elif isinstance(value, dict):
        _add(content, sorted(value.items()))
    elif isinstance(value, list | tuple):
        content.update(f"[{len(value)}".encode())
        for each in value:
            _add(content, each)
    else:
        content.update(repr(value).encode())
    content.update(b";")


def brief(kind: str, body: str) -> str:
    """A row in a few letters."""
    return hashlib.sha256(f"{kind} {body}".encode()).hexdigest()[:16]


@dataclass
class Damage:
    """What was done to a journal's files."""

    kind: str
    first: int  # the first record that is lost
    unreadable: list[int]  # rows whose payloads are not what was written
    forgotten: bool  # rows that SQLite does not find any more
    durable: bool = False  # until then it may be there, in part or not at all
    files: dict[str, str] = field(default_factory=dict)  # to be kept: their digests


@dataclass
class CutPromise:
    """A cut, and what the folder that it names has to hold."""

    first: int
    rows: list[Row]  # in the place of those that were lost
    lost: list[Row]
    damage: Damage


@dataclass
class JournalPromise:
    """One journal: the rows that must be there, and those that may follow."""

    rows: list[Row] = field(default_factory=list)
    # One transaction each, of which at most one may be there, whole.
    tails: list[list[Row]] = field(default_factory=list)
    first: Row | None = None  # says what runs here, whether it is durable or not
    damage: Damage | None = None  # until it is cut off
    cutting: CutPromise | None = None  # it may be there, or not
    cuts: list[CutPromise] = field(default_factory=list)

    def see(self, briefs: list[str]) -> list[Row]:
        """A process found these rows, and goes on from them; what was cut off."""
        for tail in self.tails:
            if [brief(*row[:2]) for row in self.rows + tail] == briefs:
                self.rows += tail
        self.tails = []
        if self.cutting is not None:
            if [brief(*row[:2]) for row in self.after(self.cutting)] == briefs:
                return self.cut()
            self.cutting = None
        return []

    def after(self, cut: CutPromise) -> list[Row]:
        """The rows once this is cut off."""
        return self.rows[: cut.first - 1] + cut.rows

    def cut(self) -> list[Row]:
        """The cut is durable; the rows that it took."""
        assert self.cutting is not None
        done = self.cutting
        self.rows = self.after(done)
        self.cuts.append(done)
        self.damage = self.cutting = None
        return done.lost


@dataclass
class ClientPromise:
    """One client's folder: the states that may be there; None is a fresh one."""

    states: list[str | None] = field(default_factory=lambda: [None])


@dataclass
class CopyPromise:
    """A backup of a run, or a run that was restored from one."""

    source: str  # the copied journal's file, or the backup's folder
    made: int = 0  # rows; 0 until it is there
    making: bool = False
    epoch: str = ""  # of a restored run


@dataclass
class Promises:
    """Everything that must hold after a cut at this moment."""

    journals: dict[str, JournalPromise] = field(default_factory=dict)
    clients: dict[str, ClientPromise] = field(default_factory=dict)
    backups: dict[str, CopyPromise] = field(default_factory=dict)  # by folder
    restored: dict[str, CopyPromise] = field(default_factory=dict)
    verdicts: dict[tuple[str, int, str], str] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)

    def take(self, told: dict[str, Any]) -> None:
        """A note that is a promise."""
        file = told.get("file", "")
        match told["what"]:
            case "appending":
                journal = self.journals.setdefault(file, JournalPromise())
                journal.tails.append([(k, b, p) for k, b, p in told["rows"]])
                journal.first = journal.first or journal.tails[0][0]
            case "appended":
                journal = self.journals[file]
                journal.rows += journal.tails[-1]
                journal.tails = []
            case "opened":
                journal = self.journals.setdefault(file, JournalPromise())
                self._forget(journal.see(told["briefs"]))
            case "damaging":
                names = ("kind", "first", "unreadable", "forgotten")
                damage = Damage(*(told[name] for name in names))
                self.journals[file].damage = damage
            case "damaged":
                known = self.journals[file].damage
                assert known is not None
                known.durable, known.files = True, told["files"]
            case "cutting":
                self.journals[file].cutting = self._cutting(told)
            case "cut":
                self._forget(self.journals[file].cut())
            case "saving":
                client = self.clients.setdefault(file, ClientPromise())
                client.states.append(told["state"])
            case "saved":
                self.clients.setdefault(file, ClientPromise()).states = [told["state"]]
            case "backing up" | "restoring":
                copies = self.backups if "back" in told["what"] else self.restored
                copy = copies.setdefault(told["folder"], CopyPromise(told["source"]))
                copy.making = True
            case "backed up" | "restored":
                copies = self.backups if "back" in told["what"] else self.restored
                copy = copies[told["folder"]]
                copy.made, copy.making = told["rows"], False
                copy.epoch = told.get("epoch", "")
            case "verdict":
                cid, seq, digest, verdict = told["told"]
                self.verdicts[cid, seq, digest] = verdict
            case "version":
                version, digest = told["told"]
                self.versions[version] = digest

    def _cutting(self, told: dict[str, Any]) -> CutPromise:
        journal, first = self.journals[told["file"]], told["first"]
        assert journal.damage is not None, "cut, though nothing was damaged"
        rows = [(k, b, p) for k, b, p in told["rows"]]
        return CutPromise(first, rows, journal.rows[first - 1 :], journal.damage)

    def _forget(self, lost: list[Row]) -> None:
        """Verdicts in these rows are of a history that has ended."""
        for name in verdicts_in(lost):
            self.verdicts.pop(name, None)


def verdicts_in(rows: list[Row]) -> set[tuple[str, int, str]]:
    """The messages that these rows decide on."""
    records = [from_row(k, b, bytes.fromhex(p)) for k, b, p in rows if k == "Decided"]
    return {(r.cid, r.seq, r.digest) for r in records if isinstance(r, Decided)}


def parse(mark: bytes) -> dict[str, Any]:
    """A note of the driver."""
    told: dict[str, Any] = json.loads(mark)
    return told
