"""A proxy in front of a server whose link has a capacity that all connections share."""

import asyncio
import contextlib
import time

from fedcore.typing import Seconds
from tools.counting_proxy import CountingProxy

_CHUNK = 8 << 10  # bytes that a connection sends before the others have their turn
_CREDIT: Seconds = 0.005  # a sleep that lasted too long is made up for by so much


class SharedLink(CountingProxy):
    """Forwards to a server at no more than so many bytes a second in each direction.

    Connections take turns by small chunks, which is processor sharing.
    """

    def __init__(self, target: str, up: float, down: float) -> None:
        super().__init__(target)
        self._rate = {"up": up, "down": down}
        self._free = {"up": 0.0, "down": 0.0}  # when each direction is free again

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                now = time.monotonic()
                start = max(now - _CREDIT, self._free[way])
                self._free[way] = end = start + len(data) / self._rate[way]
                if end > now:
                    await asyncio.sleep(end - now)
                self.sent[way] += len(data)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()
