"""Reading what updates say, beside the core thread and the event loop.

A few bytes may say something about every value of the model. What that may cost is
declared by the uplink, and refused beyond; what it does cost is paid here. The core
thread gets a message that it only has to add.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.coordinator.opened import Opened, open_update
from fedcore.typing import Bytes

THREADS = 2
LIGHT = 1 << 14  # values; reading so few costs less than going to a thread
PER_VALUE = 16  # bytes of a message that was read: a place, and what is there
LEAST, MOST = 4, 256  # updates that are read at a time, and wait to be decided on


class Opening:
    """Reads updates of one federation."""

    def __init__(self, algorithm: Algorithm, most_bytes: int) -> None:
        """``most_bytes`` of messages that were read may wait for the core thread."""
        self._spec = algorithm.spec
        self._declared = algorithm.config.declared(algorithm.spec)
        steps = max(self._declared.values())
        values = min(steps, self._spec.dim)
        together = most_bytes // max(1, PER_VALUE * values)
        self.room = asyncio.Semaphore(min(MOST, max(LEAST, together)))
        self._threads = ThreadPoolExecutor(THREADS, "opening")

    async def open(self, data: Bytes) -> Opened:
        """What an update says."""
        if self._declared.get(payloads.format_of(data), 0) <= LIGHT:
            return open_update(data, self._spec, self._declared)
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, open_update, data, self._spec, self._declared
        )

    def close(self) -> None:
        """No more will come."""
        self._threads.shutdown(wait=False, cancel_futures=True)
