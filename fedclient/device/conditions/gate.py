"""Lets a client begin tasks only while the conditions of its device hold."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fedclient.device.conditions.config import Conditions
from fedclient.device.conditions.decide import Readings, Unmet, unmet
from fedclient.device.conditions.readings import Reader
from fedcore.typing import Seconds
from fedrun.units import in_seconds

_log = logging.getLogger("fedclient")
NETWORK = frozenset({"unmetered"})
"""Conditions that are needed even to send a message that is already made."""
ASK_EVERY: Seconds = 60.0  # at most so often it asks whether it need wait any longer


def _here_and_now() -> datetime:
    return datetime.now(UTC).astimezone()


class Gate:
    """Checks the device's conditions, at most every ``look_every`` seconds."""

    def __init__(
        self,
        asked: Conditions,
        reader: Reader,
        *,
        local_time: Callable[[], datetime] = _here_and_now,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        """Uses the device's clocks; a test passes its own."""
        self._asked, self._reader = asked, reader
        self._local_time, self._clock, self._sleep = local_time, clock, sleep
        self._read: Readings | None = None
        self._looked = 0.0

    def unmet(self, *, only_network: bool = False) -> list[Unmet]:
        """Returns the conditions that do not hold now.

        Args:
            only_network: whether only a message is to be sent.
        """
        if not self._asked.are_any:
            return []
        now = self._clock()
        if self._read is None or now - self._looked >= self._asked.look_every:
            self._read, self._looked = self._reader.read(), now
        found = unmet(self._asked, self._read, self._local_time())
        return [each for each in found if not only_network or each.name in NETWORK]

    def wait(
        self,
        begins: Callable[[str], Any] = lambda _: None,
        ends: Callable[[], Any] = lambda: None,
        only_network: bool = False,
        is_over: Callable[[str], bool] = lambda _: False,
    ) -> bool:
        """Waits until the conditions hold; logs why they do not.

        Args:
            begins: is called with the reasons if the client has to wait.
            ends: is called after the wait.
            only_network: whether only a message is to be sent.
            is_over: is called with the reasons and returns whether to stop waiting. It
                is called when the wait begins and then at a check, at most once a
                minute, but never while the network must not be used.

        Returns:
            Whether the conditions hold; if not, ``is_over`` has ended the wait.
        """
        said, began = "", self._clock()
        asks_at = began
        while found := self.unmet(only_network=only_network):
            why = "; ".join(map(str, found))
            if not said:
                begins(why)
            if why != said:
                _log.info("no task for now: %s", why)
            said = why
            may_ask = not any(each.name in NETWORK for each in found)
            if may_ask and self._clock() >= asks_at:
                asks_at = self._clock() + ASK_EVERY
                if is_over(why):
                    return False
            self._sleep(self._asked.look_every)
        if said:
            waited = in_seconds(self._clock() - began)
            _log.info("the conditions of this device hold, after %s", waited)
            ends()
        return True


ALWAYS = Gate(Conditions(), Reader(Conditions()))
"""No conditions: tasks begin at any time, and nothing is read."""
