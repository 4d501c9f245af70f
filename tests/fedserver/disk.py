"""A disk that is as slow as a test wants it."""

import threading
from collections.abc import Sequence
from typing import Any

from fedrun.journal.store import NO_FACTS, Facts, Row
from tests.patience import PATIENCE
from tests.served import Served, until


class Disk:
    """The seam to the disk: between :meth:`stop` and :meth:`go` nothing is written."""

    def __init__(self, server: Served) -> None:
        self._store: Any = server.run.journal.store
        self._free = threading.Event()
        self._free.set()
        self.waits = threading.Event()
        server.run.journal.store = self  # type: ignore[assignment]

    def stop(self) -> None:
        """What is appended from now on waits."""
        self._free.clear()

    def go(self) -> None:
        """What waits is written."""
        self._free.set()

    def append(self, records: Sequence[Row], facts: Facts = NO_FACTS) -> int:
        """Once it may."""
        if not self._free.is_set():
            self.waits.set()
            assert self._free.wait(PATIENCE)
        return int(self._store.append(records, facts))

    def until_it_waits(self) -> None:
        """Something has come as far as the disk."""
        until(self.waits.is_set, "something is to be written")
        self.waits.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
