"""The high-water mark: how far the journal had come, beside the journal.

It is written after each commit and never waited for, so it costs no sync; only a repair
waits for one, before it overwrites other evidence. A mark above
the journal's last record proves that acknowledged records are missing. A mark below it
proves nothing: a power cut may have taken the newer one.
"""

import contextlib
import errno
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedrun.durable import sync_file, sync_folder
from fedrun.plain_files import open_to_write, read_plain

FILE = "journal.mark"
_BODY = struct.Struct("<4s8sQ")
_CHECK = struct.Struct("<I")
_MAGIC = b"LCM1"
_SLOTS = (0, 512)  # written in turn: a torn write harms one of them
_MOST = 4096  # bytes of the file


class Mark(NamedTuple):
    """The number of a record that was durable, and the history of the number."""

    history: bytes  # eight bytes that name what the number counts
    number: int


class MarkFile:
    """Writes the mark of one journal; there is one writer at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._descriptor: int | None = None
        self._turn = 0

    def write(self, mark: Mark) -> None:
        """Notes that a record is durable; a mark that cannot be written is skipped."""
        body = _BODY.pack(_MAGIC, *mark)
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                self._descriptor = open_to_write(self._path)
            os.pwrite(
                self._descriptor,
                body + _CHECK.pack(zlib.crc32(body)),
                _SLOTS[self._turn],
            )
            self._turn = 1 - self._turn

    def prove(self, mark: Mark) -> None:
        """Writes the mark, and waits until it is on disk.

        Raises:
            OSError: it cannot be written.
        """
        self.write(mark)
        sync_file(self._path)
        sync_folder(self._path.parent)
        if mark not in read_marks(self._path.parent):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self._path))

    def close(self) -> None:
        """Releases the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_marks(folder: Path) -> list[Mark]:
    """Returns the marks that can be read; none if there is no such file.

    Raises:
        OSError: the file is there and cannot be read.
    """
    return [mark for _, mark in _slots(folder) if mark is not None]


def damaged_marks(folder: Path) -> list[int]:
    """Returns where marks were written that cannot be read, as bytes of the file.

    Raises:
        OSError: the file is there and cannot be read.
    """
    return [start for start, mark in _slots(folder) if mark is None]


def _slots(folder: Path) -> Iterator[tuple[int, Mark | None]]:
    """Yields the place of each mark that was written, with what it says."""
    try:
        content = read_plain(folder / FILE, _MOST, links=False)
    except (FileNotFoundError, NotADirectoryError):
        return
    for start in _SLOTS:
        body = content[start : start + _BODY.size]
        check = content[start + _BODY.size : start + _BODY.size + _CHECK.size]
        if body[:4] == _MAGIC and check == _CHECK.pack(zlib.crc32(body)):
            _, history, number = _BODY.unpack(body)
            yield start, Mark(history, number)
        elif any(body + check):
            yield start, None
