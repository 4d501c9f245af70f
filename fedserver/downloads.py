"""Large answers that are sent at a time: whoever does not take its own makes room.

Chunks are small until it is known how fast a client takes them, so that one on a slow
link is not taken for one that stands still.

A client that has taken an answer before goes before those that have not, and one that
let others wait goes behind them, and makes room at once.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fedwire.frames import CHUNK, FIRST

from fedcore.typing import Seconds
from fedserver.limits import Limit

BRIEF: Seconds = 5.0  # standing still for so long in all is borne while others wait
NEW = 5  # times less is borne of who has never taken an answer
BUFFERED = 4 << 20  # bytes that buffers on the way may take, however slow the link is
_LOOK: Seconds = 0.1  # for one that has stood still for too long


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
        self._taken = 0  # places
        self._open: set[Download] = set()
        self._waiting: dict[tuple[bool, Seconds, int], asyncio.Future[None]] = {}
        self._spent: dict[str, Seconds] = {}  # by cid, on answers that were not taken
        self._takers: dict[str, int] = {}  # who has taken one, and its last chunk
        self._numbers = itertools.count()

    @asynccontextmanager
    async def place(self, cid: str, limit: Limit) -> AsyncIterator[Download]:
        """A place among those that are sent; ``limit`` ends the call that has it."""
        if self._taken < self._most and not self._waiting:
            self._taken += 1
        else:
            await self._wait(cid)
        download = Download(cid, limit, self._takers.get(cid, FIRST))
        self._open.add(download)
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
            self._leave()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether all places are taken."""
        return self._taken >= self._most

    async def _wait(self, cid: str) -> None:
        """Returns when there is a place for this client."""
        is_new, spent = cid not in self._takers, self._spent.get(cid, 0.0)
        place = is_new, spent, next(self._numbers)
        turn = self._waiting[place] = asyncio.get_running_loop().create_future()
        try:
            while not turn.done():
                self._make_room(spent, is_new=is_new)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.shield(turn), _LOOK)
        except asyncio.CancelledError:
            if turn.done():
                self._leave()
            raise
        finally:
            self._waiting.pop(place, None)

    def _leave(self) -> None:
        """A place becomes free, or another's."""
        if self._waiting:
            self._waiting.pop(min(self._waiting)).set_result(None)
        else:
            self._taken -= 1

    def _make_room(self, spent: Seconds, *, is_new: bool) -> None:
        """Ends the one that has stood still for longest, if that is too long."""
        now = time.monotonic()

        def stood(download: Download) -> Seconds:
            still = self._spent.get(download.cid, 0.0) + now - download.touched
            is_newer = download.cid not in self._takers and not is_new
            return still * (NEW if is_newer else 1)

        open_ = [each for each in self._open if not each.is_ended]
        ending = len(self._open) - len(open_)
        if ending >= len(self._waiting) or not open_:
            return
        slowest = max(open_, key=stood)
        if stood(slowest) > self._brief + spent:
            slowest.is_ended = True
            slowest.limit.end()
