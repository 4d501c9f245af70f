"""What was promised up to a moment, from the notes in a log."""

import hashlib
import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

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


@dataclass
class JournalPromise:
    """One journal: what was handed to it, and how much of that is promised."""

    rows: list[Row] = field(default_factory=list)  # row n at n - 1
    promised: int = 0


@dataclass
class ClientPromise:
    """One client's folder: the states that may be there."""

    saved: str | None = None
    saving: str | None = None


@dataclass
class Promises:
    """Everything that must hold after a cut at this moment."""

    journals: dict[str, JournalPromise] = field(default_factory=dict)
    clients: dict[str, ClientPromise] = field(default_factory=dict)
    verdicts: dict[tuple[str, int, str], str] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)

    def take(self, told: dict[str, Any]) -> None:
        """A note that is a promise."""
        match told["what"]:
            case "appending":
                journal = self.journals.setdefault(told["file"], JournalPromise())
                del journal.rows[told["after"] :]
                journal.rows += [(k, b, p) for k, b, p in told["rows"]]
            case "appended":
                self.journals[told["file"]].promised = told["last"]
            case "saving":
                client = self.clients.setdefault(told["file"], ClientPromise())
                client.saving = told["state"]
            case "saved":
                self.clients[told["file"]].saved = told["state"]
            case "verdict":
                cid, seq, digest, verdict = told["told"]
                self.verdicts[cid, seq, digest] = verdict
            case "version":
                version, digest = told["told"]
                self.versions[version] = digest


def parse(mark: bytes) -> dict[str, Any]:
    """A note of the driver."""
    told: dict[str, Any] = json.loads(mark)
    return told
