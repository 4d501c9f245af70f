"""The memory of a process and of all its descendants, by the kind of process."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.speed.processes import resident_megabytes

EVERY = 0.25  # seconds between two looks


class Memory:
    """Looks at a process and its descendants again and again, on a thread."""

    def __init__(self, pid: int, kinds: Mapping[str, str]) -> None:
        """``kinds`` names a process by a word of its command line."""
        self._pid = pid
        self._kinds = kinds
        self._most: Counter[str] = Counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        """Begins to look at the memory of the processes, on a thread."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Ends."""
        self._ended.set()
        self._thread.join()

    @property
    def most(self) -> dict[str, float]:
        """The most resident megabytes that each kind has held at a time."""
        return {kind: round(found, 1) for kind, found in self._most.items()}

    def _look(self) -> None:
        while not self._ended.wait(EVERY):
            now: Counter[str] = Counter()
            for pid in descendants(self._pid):
                # A process may end between two looks, and a dead one holds nothing.
                with suppress(OSError, AssertionError):
                    now[self._kind(pid)] += resident_megabytes(pid)  # type: ignore[assignment]
            for kind, found in now.items():
                self._most[kind] = max(self._most[kind], found)

    def _kind(self, pid: int) -> str:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        names = [Path(word).name for word in words]
        return next((k for word, k in self._kinds.items() if word in names), "other")


def descendants(pid: int) -> Iterator[int]:
    """A process and all that it started, as the kernel tells it now."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            children[int(parent)].append(int(stat.parent.name))
    waiting = [pid]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += children[found]
