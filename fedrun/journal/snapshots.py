"""Snapshots of the server's state: safetensors files that bound a restart."""

import contextlib
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.errors import CorruptJournalError, ModelError
from fedcore.trees import Arrays
from fedcore.typing import JSON
from fedrun.files import load_arrays, save_arrays
from fedrun.journal.disk import writing
from fedrun.json_text import read_json

NAME = re.compile("[0-9]{12,18}")  # of a snapshot: its last record
_STATE, _CHECK = "latecomer.state", "latecomer.check"
COPIED = ".copied"  # the ending of one that a backup is copying


class Snapshots:
    """The snapshot files of a run; each is named after the last record in it."""

    def __init__(self, folder: Path, before: int | None = None) -> None:
        """Snapshots of records from ``before`` on are left out."""
        self._folder, self._before = folder, before

    def save(self, number: int, scalars: JSON, arrays: Arrays) -> None:
        """Writes a snapshot that holds all records up to ``number``."""
        state = json.dumps(scalars)
        metadata = {_STATE: state, _CHECK: _digest(state, arrays)}
        path = self.path(number)
        with writing(path):
            save_arrays(path, arrays, metadata)

    def load(self, number: int) -> tuple[JSON, dict[str, Any]]:
        """Returns the state that a snapshot holds.

        Raises:
            CorruptJournalError: the file is missing or damaged.
        """
        return read_snapshot(self.path(number))

    def numbers(self) -> list[int]:
        """Returns the snapshots that exist, oldest first."""
        found = self._folder.glob("*.safetensors")
        numbers = sorted(int(path.stem) for path in found if NAME.fullmatch(path.stem))
        return [n for n in numbers if self._before is None or n < self._before]

    def newest_sound(self, limit: int) -> int:
        """Returns the newest snapshot up to a record that can be read; 0: none can."""
        for number in reversed(self.numbers()):
            if number <= limit:
                with contextlib.suppress(CorruptJournalError):
                    self.load(number)
                    return number
        return 0

    def remove(self, number: int) -> None:
        """Removes a snapshot."""
        path = self.path(number)
        with writing(path):
            path.unlink(missing_ok=True)

    def path(self, number: int) -> Path:
        """Returns the path of a snapshot."""
        return self._folder / f"{number:012d}.safetensors"


def read_snapshot(path: Path) -> tuple[JSON, dict[str, Any]]:
    """Returns the state that a snapshot holds.

    Raises:
        CorruptJournalError: the file is missing or damaged.
    """
    try:
        arrays, metadata = load_arrays(path)
        state = metadata[_STATE]
        if _digest(state, arrays) != metadata[_CHECK]:
            raise CorruptJournalError(f"{path}: its checksum is wrong")
        return read_json(state), arrays
    except (ModelError, KeyError, ValueError) as error:
        raise CorruptJournalError(f"snapshot {int(path.stem)}: {error}") from error


def _digest(state: str, arrays: Arrays) -> str:
    content = hashlib.sha256(state.encode())
    for name in sorted(arrays):
        content.update(name.encode())
        values = np.asarray(arrays[name], order="C").reshape(-1)
        content.update(values.view(np.uint8).data)
    return content.hexdigest()
