"""The deadline of a cohort: when it has passed, and how a pause of the run moves it."""

from collections.abc import Sequence
from typing import Any

from fedcore.coordinator.actions import Action, SetTimer
from fedcore.coordinator.events import Timer
from fedcore.typing import JSON, Seconds


class Deadline:
    """The deadline of the present cohort, if it has one.

    It depends on the times of events alone. It is not durable: after a restart, the
    first lease sets it anew.
    """

    def __init__(self) -> None:
        """Makes one that is not set."""
        self._set: SetTimer | None = None
        self._left: Seconds | None = None  # of a deadline that a pause stopped

    @property
    def is_set(self) -> bool:
        """Whether this cohort has a deadline, stopped or not."""
        return self._set is not None

    def begin(self, timer: Timer, at: Seconds) -> list[Action]:
        """A cohort begins; returns the timer to set, for the time ``at``."""
        self._set, self._left = SetTimer(timer=timer, at=at), None
        return [self._set]

    def end(self) -> None:
        """The cohort is over: a timer of it that fires is void."""
        self._set = self._left = None

    def is_due(self, timer: Timer) -> bool:
        """Whether a timer that fires is this deadline, and no pause has stopped it."""
        is_this = self._set is not None and timer == self._set.timer
        return is_this and self._left is None

    def stop(self, at: Seconds) -> None:
        """The run is paused: the time that is left stays."""
        if self._set is not None:
            self._left = max(0.0, self._set.at - at)

    def go_on(self, at: Seconds) -> list[Action]:
        """The run goes on; returns the timer to set in place of the one before.

        It has another name, so that the one before is void, even where it has fired and
        is on its way to the coordinator.
        """
        if self._set is None or self._left is None:
            return []
        before = self._set.timer
        return self.begin(
            before._replace(subject=f"{before.subject}+"), at + self._left
        )

    def dump(self) -> JSON:
        """The deadline as JSON, for :meth:`load`; only simulations ask, unpaused."""
        return None if self._set is None else [*self._set.timer, self._set.at]

    def load(self, saved: Sequence[Any] | None) -> list[Action]:
        """Takes over what :meth:`dump` returned; returns the timer to set."""
        if saved is None:
            return []
        *timer, at = saved
        return self.begin(Timer(*timer), at)
