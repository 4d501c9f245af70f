"""SQLite's write-ahead log, read before SQLite recovers from it.

SQLite takes the frames of a log up to the first that does not follow from the one
before it, and silently forgets the others. After a power cut that is right: the frames
of a transaction that was never synced may be there or not. But a transaction begins
only when the one before it is on disk. So where a frame follows from the commit of
another one, all up to that commit had been synced, and a gap before it is damage.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_HEADER, _FRAME = 32, 24
_MAGIC = (0x377F0682, 0x377F0683)  # the checksums' words are little- or big-endian
_DEFAULT_PAGE = 4096
_BLOCK = 256  # frames that are looked at together
Words = npt.NDArray[np.uint32]


class Gap(NamedTuple):
    """A frame at which SQLite would stop, although later ones were committed."""

    frame: int
    offset: int  # in the file
    frames: int  # of all that were written


class _Slots(NamedTuple):
    """The header in each place for a frame."""

    page: Words
    commits: npt.NDArray[np.bool_]
    salts: Words  # (frames, 2)
    follows: npt.NDArray[np.bool_]  # from the checksum that stands before it


def gap(log: Path, database: Path) -> Gap | None:
    """Returns the first damaged frame of a log that has later, committed frames.

    Raises:
        OSError: a file cannot be read.
    """
    if not log.is_file():
        return None
    content = np.memmap(log, np.uint8, "r") if log.stat().st_size else np.empty(0, "u1")
    if len(content) <= _HEADER + _FRAME:
        return None
    head = content[:_HEADER].tobytes()
    sound = _is_sound(head)
    size = _page_size(head, sound, database)
    order = ">u4" if head[3] == _MAGIC[1] & 0xFF else "<u4"
    slots = _slots(content, size, order)
    # A frame that begins the transaction after another one: that one was synced.
    crossing = np.flatnonzero(
        slots.commits[:-1]
        & slots.follows[1:]
        & (slots.salts[:-1] == slots.salts[1:]).all(axis=1)
    )
    if sound:
        salts = np.frombuffer(head[16:24], ">u4").astype(np.uint32)
    elif crossing.size:
        salts = max(slots.salts[crossing].tolist())  # they count up
    else:
        return None
    mine = (slots.salts == np.asarray(salts, np.uint32)).all(axis=1)
    crossing = crossing[mine[crossing]]
    good = mine & slots.follows
    end = int(np.argmin(good)) if not good.all() else len(good)
    if not sound:
        end = 0
        committed = np.flatnonzero(mine & slots.commits)[-1]
        places = np.flatnonzero(mine[: committed + 1]).tolist()
        images = {int(slots.page[place]): place for place in places}
        if _is_in(database, content, images, size):
            return None  # the log was about to be used anew
    if not crossing.size or crossing[-1] < end:
        return None
    return Gap(end, _HEADER + end * (_FRAME + size), int(crossing[-1]) + 2)


def _is_sound(head: bytes) -> bool:
    magic = int.from_bytes(head[:4], "big")
    if magic not in _MAGIC:
        return False
    order = "<u4" if magic == _MAGIC[0] else ">u4"
    words = np.frombuffer(head[:24], order).astype(np.uint32)[None]
    stored = np.frombuffer(head[24:32], ">u4").astype(np.uint32)
    return bool((_sums(words)[0] == stored).all())


def _page_size(head: bytes, sound: bool, database: Path) -> int:
    if sound:
        return int.from_bytes(head[8:12], "big")
    with database.open("rb") as file:
        size = int.from_bytes(file.read(18)[16:], "big")
    return {0: _DEFAULT_PAGE, 1: 65536}.get(size, size)


def _slots(content: npt.NDArray[np.uint8], size: int, order: str) -> _Slots:
    whole = _FRAME + size
    count = (len(content) - _HEADER) // whole
    frames = content[_HEADER : _HEADER + count * whole].reshape(count, whole)
    fields = np.asarray(frames[:, :_FRAME], order="C").view(">u4").astype(np.uint32)
    stored = fields[:, 4:]
    first = np.frombuffer(content[24:32].tobytes(), ">u4").astype(np.uint32)
    before = np.concatenate([first[None], stored[:-1]])
    follows = np.empty(count, bool)
    for start in range(0, count, _BLOCK):
        block = frames[start : start + _BLOCK]
        covered = np.concatenate([block[:, :8], block[:, _FRAME:]], axis=1)
        words = np.asarray(covered, order="C").view(order).astype(np.uint32)
        sums = _sums(words, before[start : start + _BLOCK])
        follows[start : start + _BLOCK] = (sums == stored[start : start + _BLOCK]).all(
            axis=1
        )
    return _Slots(fields[:, 0], fields[:, 1] != 0, fields[:, 2:4], follows)


def _sums(words: Words, before: Words | None = None) -> Words:
    """Returns SQLite's checksum of each row, continued from the row before.

    A step adds two words: s0 += x0 + s1, then s1 += x1 + s0. That is linear, so all
    steps are one product with the powers of ((1, 1), (1, 2)), modulo 2^32.
    """
    steps = words.shape[-1] // 2
    powers = np.empty((steps + 1, 2, 2), np.uint32)
    powers[0] = np.eye(2, dtype=np.uint32)
    step = np.array([[1, 1], [1, 2]], np.uint32)
    for place in range(steps):
        powers[place + 1] = powers[place] @ step
    added = words.reshape(len(words), steps, 2).copy()
    added[:, :, 1] += added[:, :, 0]
    # The last pair is multiplied by the power 0.
    sums: Words = np.einsum("fsj,sij->fi", added, powers[steps - 1 :: -1][:steps])
    if before is not None:
        sums = sums + before @ powers[steps].T
    return sums


def _is_in(
    database: Path, content: npt.NDArray[np.uint8], images: dict[int, int], size: int
) -> bool:
    """Returns whether the database holds the same pages as these frames."""
    with database.open("rb") as file:
        for page, frame in images.items():
            start = _HEADER + frame * (_FRAME + size) + _FRAME
            file.seek((page - 1) * size)
            if file.read(size) != content[start : start + size].tobytes():
                return False
    return True
