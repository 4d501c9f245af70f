"""A count of one client process's bytes, taken where messages are made and read."""

import threading

from fedcore.typing import Bytes
from fedrun.traffic import Load, Way, codec_of
from fedrun.units import in_bytes


class TransferCounter:
    """Counts of messages and payloads in each direction; any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loads: dict[Way, Load] = {"up": Load(), "down": Load()}
        self._codecs: dict[Way, set[str]] = {"up": set(), "down": set()}

    def count(self, way: Way, nbytes: int) -> None:
        """Counts a message of ``nbytes``, including the prefix that gRPC adds."""
        with self._lock:
            self._loads[way].framed += nbytes

    def carry(self, way: Way, offset: int, data: Bytes, whole: int) -> None:
        """Counts ``data``, at ``offset`` of a payload of ``whole`` bytes."""
        if not len(data):
            return
        with self._lock:
            load = self._loads[way]
            load.payload += len(data)
            load.transfers += offset + len(data) == whole
            if not offset:
                self._codecs[way].add(codec_of(data))

    @property
    def framed(self) -> int:
        """The bytes of all messages so far, in both directions."""
        with self._lock:
            return sum(load.framed for load in self._loads.values())

    def load(self, way: Way) -> Load:
        """Returns a copy of the counts so far."""
        with self._lock:
            load = self._loads[way]
            return Load(load.transfers, load.payload, load.framed)

    def __str__(self) -> str:
        """Describes both directions in one line."""
        return "; ".join(self._line(way) for way in self._loads)

    def _line(self, way: Way) -> str:
        load, codecs = self.load(way), ", ".join(sorted(self._codecs[way]))
        if not load.payload:
            return f"{way}: {in_bytes(load.framed)} in messages without a payload"
        noun = "payload" if load.transfers == 1 else "payloads"
        return (
            f"{way}: {load.transfers} {noun} of {in_bytes(load.payload)} ({codecs}) in "
            f"messages of {in_bytes(load.framed)}"
        )
