"""Stores large payloads in preallocated files that are used again.

Overwriting a recycled segment is durable in about a tenth of the time of a new
file, since the file system has no metadata to write. A place is a segment and an
offset; the rows of the journal say which places are taken, and this module only
reads, writes and syncs them.

A header stands before each payload. It says which record the payload belongs to and
which records were durable when it was written: found behind the last payload that a row
names, it proves that the journal once went on.
"""

import contextlib
import errno
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedcore.errors import CorruptJournalError
from fedcore.typing import Bytes
from fedrun.durable import PRIVATE_FILE, make_folder, sync_file, sync_folder
from fedrun.journal.disk import explain, reading
from fedrun.plain_files import memory, open_to_write, read_plain, require_regular

# --------------- the high-water mark: how far the journal had come, beside the journal
#
# It is written after each commit and never waited for, so it costs no sync; only a
# repair waits for one, before it overwrites other evidence. A mark above the journal's
# last record proves that acknowledged records are missing. A mark below it proves
# nothing: a power cut may have taken the newer one.


FILE = "journal.mark"
_BODY = struct.Struct("<4s8sQ")
_CHECK = struct.Struct("<I")
_MARKED = b"LCM1"
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
        body = _BODY.pack(_MARKED, *mark)
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


def find_damaged_marks(folder: Path) -> list[int]:
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
        if body[:4] == _MARKED and check == _CHECK.pack(zlib.crc32(body)):
            _, history, number = _BODY.unpack(body)
            yield start, Mark(history, number)
        elif any(body + check):
            yield start, None


# --------------------- stores large payloads in preallocated files that are used again


SEGMENT_BYTES = 64 << 20
_HEADER = struct.Struct("<4s8sQQQ")
_MAGIC = b"LCP1"
_NAME = re.compile(r"[0-9]{6,12}\.segment")
HEADER_BYTES = _HEADER.size + _CHECK.size


class Place(NamedTuple):
    """The place of a payload."""

    segment: int
    offset: int
    size: int


class Header(NamedTuple):
    """The header before a payload."""

    history: bytes  # eight bytes that name what the numbers count
    number: int  # of the payload's record
    durable: int  # the last record that was on disk when it was written
    size: int

    def pack(self) -> bytes:
        """Returns the header as bytes, with a checksum."""
        body = _HEADER.pack(_MAGIC, *self)
        return body + _CHECK.pack(zlib.crc32(body))


class Segments:
    """The segment files of one journal."""

    def __init__(
        self,
        folder: Path,
        segment_bytes: int = SEGMENT_BYTES,
        *,
        read_only: bool = False,
    ) -> None:
        self._folder = folder
        self._bytes = segment_bytes
        self._flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        self._open: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._current: int | None = None
        self._end = 0
        self._free: list[int] = []

    def start(self, taken: dict[int, int]) -> None:
        """Continues after ``taken``, the end of each segment in use."""
        if self._folder.is_dir():
            with reading(self._folder):  # a process that made one may have been killed
                sync_folder(self._folder)
        self._free = sorted(set(self.numbers()) - set(taken))
        self._current, self._end = None, 0
        if taken:
            self._current = max(taken)
            self._end = taken[self._current]

    def require(self, taken: dict[int, int]) -> None:
        """Checks that every segment in use is there, and long enough.

        Raises:
            JournalError: one cannot be opened.
            CorruptJournalError: one ends before its last payload does.
        """
        for number, end in taken.items():
            with reading(self._path(number)):
                size = self._size(number)
            if size < end:
                raise CorruptJournalError(
                    f"{self._path(number)}: ends at byte {size}, its last payload at "
                    f"byte {end}"
                )

    def numbers(self) -> list[int]:
        """Returns the segments that exist."""
        with reading(self._folder):
            try:
                names = os.listdir(self._folder)
            except FileNotFoundError:
                return []
        return sorted(int(name[:-8]) for name in names if _NAME.fullmatch(name))

    def write(self, payload: Bytes, history: bytes, number: int, durable: int) -> Place:
        """Writes a record's payload; durable only after :meth:`sync`."""
        size = len(payload)
        whole = HEADER_BYTES + size
        if self._current is None or self._end + whole > self._size(self._current):
            self._next(whole)
        assert self._current is not None
        head = Header(history, number, durable, size).pack()
        descriptor, start = self._descriptor(self._current), self._end
        written = os.pwritev(descriptor, [head, payload], start)
        while written < whole:
            rest = memoryview(head)[written:], memoryview(payload)
            if written >= HEADER_BYTES:
                rest = memoryview(b""), memoryview(payload)[written - HEADER_BYTES :]
            written += os.pwritev(descriptor, rest, start + written)
        self._end += whole
        self._dirty.add(self._current)
        return Place(self._current, start + HEADER_BYTES, size)

    def sync(self) -> None:
        """Makes all that was written durable."""
        for number in self._dirty:
            os.fdatasync(self._descriptor(number))
        self._dirty.clear()

    def read(self, place: Place) -> bytes:
        """Returns the payload at a place.

        Raises:
            JournalError: the file cannot be read.
            CorruptJournalError: it ends before the payload does.
        """
        path, found = self._path(place.segment), b""
        with reading(path):
            descriptor = self._descriptor(place.segment)
            rest = os.fstat(descriptor).st_size - place.offset
            if 0 <= place.size <= min(rest, memory()) and place.offset >= 0:
                found = os.pread(descriptor, place.size, place.offset)
        if len(found) != place.size:
            raise CorruptJournalError(
                f"{path}: ends before byte {place.offset + place.size}, where a "
                "payload does"
            )
        return found

    def headers(self, taken: dict[int, int]) -> list[Header]:
        """Returns the headers of payloads that no row names."""
        found = []
        for number in self.numbers():
            place = taken.get(number, 0)
            while (header := self._header(number, place)) is not None:
                found.append(header)
                place += HEADER_BYTES + header.size
                if place > self._size(number):
                    break  # what it says of itself cannot be
        return found

    def wrong_header(self, number: int, place: Place) -> Iterator[str]:
        """Yields what is wrong with the header before a record's payload, if anything.

        Args:
            number: of the record.
            place: of its payload.
        """
        header = self._header(place.segment, max(0, place.offset - HEADER_BYTES))
        if header is None or (header.number, header.size) != (number, place.size):
            yield (
                f"{self._path(place.segment)}: the header of record {number} is damaged"
            )

    def recycle(self, number: int) -> None:
        """Marks a segment whose payloads are not needed any more as free."""
        if number == self._current:
            self._current = None
        if number not in self._free:
            self._free.append(number)

    def close(self) -> None:
        """Closes the files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _next(self, size: int) -> None:
        """Takes a recycled segment that is large enough, or makes a new one."""
        for number in self._free:
            if self._size(number) >= size:
                self._free.remove(number)
                self._current, self._end = number, 0
                return
        number = max(self.numbers(), default=0) + 1
        path = self._path(number)
        make_folder(self._folder)
        descriptor = os.open(path, self._flags | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            _allocate(descriptor, size, self._bytes)
            sync_folder(self._folder)  # its size is synced with the first payload
        except OSError as error:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                path.unlink()
            raise explain(path, error) from error
        self._open[number] = descriptor
        self._current, self._end = number, 0

    def _header(self, number: int, place: int) -> Header | None:
        with reading(self._path(number)):
            content = os.pread(self._descriptor(number), HEADER_BYTES, place)
        body = content[: _HEADER.size]
        if body[:4] != _MAGIC or content[_HEADER.size :] != _CHECK.pack(
            zlib.crc32(body)
        ):
            return None
        return Header(*_HEADER.unpack(body)[1:])

    def _size(self, number: int) -> int:
        return os.fstat(self._descriptor(number)).st_size

    def _descriptor(self, number: int) -> int:
        if number not in self._open:
            path = self._path(number)
            require_regular(path, links=False)
            self._open[number] = os.open(path, self._flags | os.O_NOFOLLOW)
        return self._open[number]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.segment"


def _allocate(descriptor: int, least: int, wanted: int) -> None:
    """Allocates a segment; on a nearly full disk, only what must be written."""
    try:
        os.posix_fallocate(descriptor, 0, max(least, wanted))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.ftruncate(descriptor, 0)
        os.posix_fallocate(descriptor, 0, least)
