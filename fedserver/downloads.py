"""Large answers that are sent at a time: whoever does not take its own makes room.

Chunks are small until it is known how fast a client takes them, so that one on a slow
link is not taken for one that stands still.

A client that has taken an answer before goes before those that have not, and one that
let others wait goes behind them, and makes room at once.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fedwire.frames import CHUNK, FIRST

from fedcore.typing import Seconds
from fedserver.limits import Limit, Line

BRIEF: Seconds = 5.0  # standing still for so long in all is borne while others wait
NEW = 5  # times less is borne of who has never taken an answer
BUFFERED = 4 << 20  # bytes that buffers on the way may take, however slow the link is


@dataclass(slots=True, eq=False)
class Download:
    """An answer that is being sent."""

    cid: str
    limit: Limit
    chunk: int = FIRST  # bytes that it takes in a second, as far as that is known
    began: Seconds = field(default_factory=time.monotonic)
    touched: Seconds = field(default_factory=time.monotonic)
    nbytes: int = 0  # that it has taken
    is_taken: bool = False  # to its end
    is_ended: bool = False

    def touch(self, nbytes: int) -> None:
        """The client has taken a part."""
        self.touched = time.monotonic()
        self.nbytes += nbytes
        if self.nbytes >= BUFFERED:
            took = max(1e-3, self.touched - self.began)
            self.chunk = min(CHUNK, max(FIRST, int(self.nbytes / took)))

    def next_size(self) -> int:
        """How many bytes the next chunk may have."""
        return self.chunk


class Downloads:
    """All answers that are being sent."""

    def __init__(self, most: int, brief: Seconds = BRIEF) -> None:
        self._most, self._brief = most, brief
        self._open: set[Download] = set()
        self._line = Line()
        self._spent: dict[str, Seconds] = {}  # by cid, on answers that were not taken
        self._takers: dict[str, int] = {}  # who has taken one, and its last chunk

    @asynccontextmanager
    async def place(self, cid: str, limit: Limit) -> AsyncIterator[Download]:
        """A place among those that are sent; ``limit`` ends the call that has it."""
        is_new, spent = cid not in self._takers, self._spent.get(cid, 0.0)

        def take() -> Download | None:
            if self.is_full:
                self._make_room(spent, is_new=is_new)
                return None
            download = Download(cid, limit, self._takers.get(cid, FIRST))
            self._open.add(download)
            return download

        download = await self._line.turn(take, is_new, spent)
        try:
            yield download
        finally:
            self._open.discard(download)
            if download.is_taken:
                self._spent.pop(cid, None)
                self._takers[cid] = download.chunk
            else:
                stood = time.monotonic() - download.touched
                self._spent[cid] = self._spent.get(cid, 0.0) + stood
            self._line.move()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._line)

    @property
    def is_full(self) -> bool:
        """Whether all places are taken."""
        return len(self._open) >= self._most

    def _make_room(self, spent: Seconds, *, is_new: bool) -> None:
        """Ends the one that has stood still for longest, if that is too long."""
        now = time.monotonic()

        def stood(download: Download) -> Seconds:
            still = self._spent.get(download.cid, 0.0) + now - download.touched
            is_newer = download.cid not in self._takers and not is_new
            return still * (NEW if is_newer else 1)

        open_ = [each for each in self._open if not each.is_ended]
        ending = len(self._open) - len(open_)
        if ending >= len(self._line) or not open_:
            return
        slowest = max(open_, key=stood)
        if stood(slowest) > self._brief + spent:
            slowest.is_ended = True
            slowest.limit.end()
