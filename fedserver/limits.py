"""Limits calls: their duration, their number in all and for each, and their rate."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from math import inf
from typing import TypeVar

from fedcore.errors import UnavailableError
from fedcore.typing import Seconds

Room = TypeVar("Room")
LOOK: Seconds = 0.1  # between two looks for room by the first one in a line


class Limit:
    """A call that can be ended from outside while it waits."""

    def __init__(self) -> None:
        self._waiting: asyncio.Timeout | None = None
        self._is_over = False

    @asynccontextmanager
    async def within(self, seconds: Seconds) -> AsyncIterator[asyncio.Timeout]:
        """Limits the time of the block.

        Raises:
            TimeoutError: it took longer, or the call was ended.
        """
        async with asyncio.timeout(0 if self._is_over else seconds) as waiting:
            self._waiting = waiting
            try:
                yield waiting
            finally:
                self._waiting = None

    def end(self) -> None:
        """Ends the call: its block raises TimeoutError."""
        self._is_over = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(0)


class Newest:
    """The calls of one kind: a client's newer call ends its earlier one."""

    def __init__(self) -> None:
        self._calls: dict[str, Limit] = {}

    @contextmanager
    def call(self, cid: str) -> Iterator[Limit]:
        """Registers a call of this client while the block runs."""
        before, limit = self._calls.get(cid), Limit()
        if before is not None:
            before.end()
        self._calls[cid] = limit
        try:
            yield limit
        finally:
            if self._calls.get(cid) is limit:
                del self._calls[cid]


class Shared:
    """A number of places for calls, of which nobody has more than a share."""

    def __init__(self, most: int, *shares: int) -> None:
        """Nobody is here.

        Args:
            most: how many places there are.
            shares: how many of them one caller may have, for each way to name callers.
        """
        self._most, self._shares = most, shares
        self._taken: list[Counter[str]] = [Counter() for _ in shares]
        self.here = 0

    @contextmanager
    def place(self, *names: str) -> Iterator[bool]:
        """Takes a place while the block runs, if there is one for this caller.

        Args:
            names: of the caller, one for each of the shares.

        Yields:
            Whether it has a place.
        """
        taken = list(zip(self._taken, names, self._shares, strict=True))
        is_full = self.here >= self._most
        if is_full or any(held[name] >= share for held, name, share in taken):
            yield False
            return
        self.here += 1
        for held, name, _ in taken:
            held[name] += 1
        try:
            yield True
        finally:
            self.here -= 1
            for held, name, _ in taken:
                held[name] -= 1
                if not held[name]:
                    del held[name]


class Line:
    """Calls that wait for room; the first one takes it as soon as there is enough."""

    def __init__(self, most: float = inf) -> None:
        """``most`` calls may wait."""
        self._most = most
        self._waiting: dict[tuple[float, ...], asyncio.Event] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Returns the number of calls that wait."""
        return len(self._waiting)

    async def turn(self, take: Callable[[], Room | None], *rank: float) -> Room:
        """Waits for this call's turn and for room; returns what ``take`` returns then.

        Args:
            take: called while this call is first; returns None if there is no room.
            rank: the call of the lowest comes first, then the one that came first.

        Raises:
            UnavailableError: too many calls wait before this one.
        """
        place = *rank, next(self._numbers)
        changed = self._waiting[place] = asyncio.Event()
        if len(self._waiting) > self._most:
            self._waiting.pop(max(self._waiting)).set()
        try:
            while place in self._waiting:
                is_first = place == min(self._waiting)
                if is_first and (taken := take()) is not None:
                    return taken
                changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK if is_first else None):
                        await changed.wait()
            raise UnavailableError("too many wait for room")
        finally:
            self._waiting.pop(place, None)
            self.move()

    def move(self) -> None:
        """Has the first call look for room."""
        if self._waiting:
            self._waiting[min(self._waiting)].set()


class Turns:
    """Gives a limited number of turns a second, one after the other."""

    def __init__(self, rate: int) -> None:
        self._rate, self._left, self._since = rate, float(rate), 0.0
        self._lock = asyncio.Lock()  # a call that ends while it waits takes no turn

    async def turn(self) -> None:
        """Waits for a turn; up to a second's worth of turns is saved up."""
        async with self._lock:
            self._save_up()
            if self._left < 1:
                await asyncio.sleep((1 - self._left) / self._rate)
                self._save_up()
            self._left -= 1

    def _save_up(self) -> None:
        now = asyncio.get_running_loop().time()
        saved = self._left + (now - self._since) * self._rate
        self._left, self._since = min(self._rate, saved), now
