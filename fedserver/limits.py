"""How long calls may take, and that each client has one of a kind."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from fedcore.typing import Seconds


class Limit:
    """A call that can be ended from outside, while it waits for something."""

    def __init__(self) -> None:
        self._waiting: asyncio.Timeout | None = None
        self._is_over = False

    @asynccontextmanager
    async def within(self, seconds: Seconds) -> AsyncIterator[asyncio.Timeout]:
        """The block may take so long.

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
        """Nobody needs it any more."""
        self._is_over = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(0)


class Newest:
    """The calls of one kind: a newer one of a client ends the one before."""

    def __init__(self) -> None:
        self._calls: dict[str, Limit] = {}

    @contextmanager
    def call(self, cid: str) -> Iterator[Limit]:
        """A call of this client, while the block runs."""
        before, limit = self._calls.get(cid), Limit()
        if before is not None:
            before.end()
        self._calls[cid] = limit
        try:
            yield limit
        finally:
            if self._calls.get(cid) is limit:
                del self._calls[cid]


class Turns:
    """So many turns a second, one after the other; more wait for theirs."""

    def __init__(self, rate: int) -> None:
        self._rate, self._left, self._since = rate, float(rate), 0.0
        self._lock = asyncio.Lock()  # who hangs up while waiting takes no turn

    async def turn(self) -> None:
        """Waits for a turn; a second's worth of them is saved up."""
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
