"""A proxy in front of a server whose link has a capacity that all connections share."""

import asyncio
import contextlib
import time

from fedcore.typing import Seconds
from tools.counting_proxy import CountingProxy

_CHUNK = 8 << 10  # bytes that a connection sends before the others have their turn
_CREDIT: Seconds = 0.005  # a sleep that lasted too long is made up for by so much


class Way:
    """One direction of a link: so many bytes a second, for whoever asks in turn."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, 0.0  # when it is free again

    async def carry(self, nbytes: int) -> None:
        """Waits until so many bytes have passed."""
        now = time.monotonic()
        start = max(now - _CREDIT, self._free)
        self._free = end = start + nbytes / self._rate
        if end > now:
            await asyncio.sleep(end - now)


class SharedLink(CountingProxy):
    """Forwards to a server at no more than so many bytes a second in each direction.

    Connections take turns by small chunks, which is processor sharing.
    """

    def __init__(self, target: str, up: float, down: float) -> None:
        super().__init__(target)
        self._ways = {"up": Way(up), "down": Way(down)}

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._ways[way].carry(len(data))
                self.sent[way] += len(data)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()
