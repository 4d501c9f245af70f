"""A TCP proxy that counts bytes and can cut connections, outside client and server.

It stands between clients and a server and belongs to neither, so it counts exactly the
bytes that crossed the sockets.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from typing import Self


class CountingProxy:
    """Forwards a port of this machine to another one, on a thread of its own."""

    def __init__(self, target: str, delay: float = 0.0) -> None:
        """Delays everything that passes by ``delay`` seconds, in each direction."""
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.sent: Counter[str] = Counter()  # bytes "up" to the server and "down"
        self.connections = 0
        self._delay = delay
        self.blocked = False  # connections are refused
        self._writers: set[asyncio.StreamWriter] = set()
        self._forgotten: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        """Begins to listen."""
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Cuts all connections, and stops."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def address(self) -> str:
        """The address to which clients connect."""
        return f"127.0.0.1:{self.port}"

    def block(self) -> None:
        """Breaks all connections, and every new one until :meth:`restore`."""
        self.blocked = True
        self.cut()

    def restore(self) -> None:
        """Lets new connections through again."""
        self.blocked = False

    def cut(self) -> None:
        """Breaks all connections in the middle of whatever they carry."""

        def abort() -> None:
            for writer in list(self._writers):
                writer.transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def forget(self) -> None:
        """Drops the data on the existing connections without notice to either side."""
        self._forgotten = set(self._writers)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connect, "127.0.0.1", 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.blocked:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(up_writer)
        await asyncio.gather(
            self._pump(reader, up_writer, "up"), self._pump(up_reader, writer, "down")
        )
        self._writers -= {writer, up_writer}

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if writer in self._forgotten:
                    continue
                self.sent[way] += len(data)
                if self._delay:
                    await asyncio.sleep(self._delay)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()
