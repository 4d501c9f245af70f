"""Takes the steps of a client's next task while its message travels."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from fedcore.errors import StoppedError
from fedcore.participant import Start, Trained
from fedcore.typing import Seconds

Steps = Callable[[Callable[[], bool]], Trained]
"""A function that takes steps as long as its argument returns true."""


class Taken(NamedTuple):
    """Steps that were taken ahead."""

    trained: Trained
    began: Seconds
    """The time at which they began, by the monotonic clock."""
    seconds: Seconds
    """The time from the first step to the last."""


class Ahead:
    """Steps that a thread takes ahead; at most those of a task.

    None of them is on disk: after a kill they are taken again.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._goes_on = False

    def begin(self, start: Start, steps: Steps) -> None:
        """Begins to take steps from a given start."""
        self.stop()
        self._start, self._began = start, time.monotonic()
        self._trained: Trained | None = None
        self._error: BaseException | None = None
        self._goes_on = True
        self._thread = threading.Thread(target=self._take, args=(steps,), daemon=True)
        self._thread.start()

    def _take(self, steps: Steps) -> None:
        try:
            self._trained = steps(lambda: self._goes_on)
            self._seconds = time.monotonic() - self._began
        except StoppedError:
            return
        except BaseException as error:  # noqa: BLE001 -- raised where they are used
            self._error = error

    def wait(self) -> None:
        """Waits until the steps are taken, and keeps them."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stops after the current step, and drops the steps."""
        self._goes_on = False
        self.wait()
        self._thread = None

    def result(self, may_use: Callable[[Start], bool]) -> Taken | None:
        """Waits for the steps, and returns them with their times.

        Args:
            may_use: returns whether steps from this start are those of the task.

        Returns:
            The steps; None if there are none that may be used.

        Raises:
            BaseException: taking the steps raised it.
        """
        if self._thread is None:
            return None
        if not may_use(self._start):
            self.stop()
            return None
        self.wait()
        self._thread = None
        if self._error is not None:
            raise self._error
        assert self._trained is not None
        return Taken(self._trained, self._began, self._seconds)
