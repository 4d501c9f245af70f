"""The proxy of the benchmark, a process of its own between clients and server.

``python -m benchmarks.bytes.proxy HOST:PORT`` prints its address, and then, for every
line of its standard input, the bytes so far. With ``--cut .3`` that share of the
uploads breaks: the connection is reset at a random byte of the payload.
"""

import argparse
import asyncio
import contextlib
import random
import socket
import struct
import sys
from collections.abc import Sequence

from benchmarks.bytes.http2 import Calls, Stream, Tally, Way
from benchmarks.speed.processes import answer
from fedcore.typing import JSON
from tools.counting_proxy import CountingProxy

_RESET = struct.pack("ii", 1, 0)  # no lingering: an RST, as from a network that breaks


class MeteringProxy(CountingProxy):
    """Counts by call and kind of frame, and may cut uploads in the middle."""

    def __init__(self, target: str, cut: float = 0.0, seed: int = 0) -> None:
        super().__init__(target)
        self.tally: Tally = Tally()
        self.cuts = 0
        self._share, self._rng = cut, random.Random(seed)

    def told(self) -> JSON:
        """All counts so far."""
        tally = dict(self.tally)
        return {
            "sent": dict(self.sent),
            "connections": self.connections,
            "cuts": self.cuts,
            "open": len(self._writers),
            "tally": [[*key, number] for key, number in sorted(tally.items())],
        }

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        both, calls = (writer, up_writer), Calls()
        up = Stream("up", calls, self.tally, self._judge)
        down = Stream("down", calls, self.tally)
        self._writers.update(both)
        await asyncio.gather(
            self._pass(reader, up_writer, "up", up, both),
            self._pass(up_reader, writer, "down", down, both),
        )
        up.close()
        down.close()
        self._writers.difference_update(both)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Way,
        stream: Stream,
        both: Sequence[asyncio.StreamWriter],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                self.sent[way] += len(data)
                for frame in stream.feed(data):
                    writer.write(frame)
                await writer.drain()
                if stream.is_cut:
                    self.cuts += 1
                    _reset(both)
                    return
        with contextlib.suppress(OSError):
            writer.close()

    def _judge(self, size: int) -> int | None:
        """Whether an upload breaks, and where."""
        if self._rng.random() >= self._share:
            return None
        return int(self._rng.uniform(0, size))


def _reset(writers: Sequence[asyncio.StreamWriter]) -> None:
    for writer in writers:
        with contextlib.suppress(OSError):
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes.proxy")
    parser.add_argument("target")
    parser.add_argument("--cut", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with MeteringProxy(given.target, given.cut, given.seed) as proxy:
        answer(proxy.address)
        for _ in sys.stdin:
            answer(proxy.told())


if __name__ == "__main__":
    main()
