"""The availability of devices, as a function of device and time."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from fedcore.distributions import ExponentialDistribution
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.config.simulate import AvailabilityConfig
from fedsim.population.chance import Chance, Values

_ALL_DAY = 1 - 1e-6  # share of a day; a shorter break could vanish by rounding
Change = tuple[Seconds, bool]  # the time, and whether it is available from then on


class Availability(Protocol):
    """The times at which each device is available."""

    deserted: Seconds
    """The time at which the last device leaves for good; infinite if none does."""

    def next_change(self, who: int, after: Seconds) -> Change | None:
        """Returns the first change after a time.

        Args:
            who: the number of the device.
            after: the time.

        Returns:
            The change, or None if there is none. Arrivals and departures alternate.
        """

    def is_there(self, who: int, at: Seconds) -> bool:
        """Returns whether a device is available; a change at this time counts."""


class Always:
    """Devices that are always available."""

    deserted = math.inf

    def next_change(self, who: int, after: Seconds) -> None:
        """Returns None: nothing ever changes."""
        return

    def is_there(self, who: int, at: Seconds) -> bool:
        """Returns True."""
        return True


class OnOff:
    """Exponential times of presence and absence: a Markov chain in its steady state.

    Each device's stretches are followed from time 0. A question about an earlier time
    than the last one starts again from 0, and gets the same answer. Each device needs
    three numbers.
    """

    deserted = math.inf

    def __init__(self, config: AvailabilityConfig, key: Key, count: int) -> None:
        there, gone = config.there_seconds, config.gone_seconds
        first_N = Chance(key.fold_in("first"), count).each() < there / (there + gone)
        self._first: list[bool] = first_N.tolist()
        self._mean = gone, there
        self._stretches = Values.of(
            ExponentialDistribution(), key.fold_in("stretch"), count
        )
        self._number = [-1] * count  # of the stretch of the last question
        self._begins = [math.inf] * count
        self._ends = [0.0] * count

    def next_change(self, who: int, after: Seconds) -> Change:
        """Returns the end of the stretch that holds this time."""
        self._seek(who, after)
        return self._ends[who], self._first[who] is bool(self._number[who] & 1)

    def is_there(self, who: int, at: Seconds) -> bool:
        """Returns whether the device's stretch at this time is one of presence.

        Even stretches are like the first one, odd ones are the opposite.
        """
        self._seek(who, at)
        return self._first[who] is not bool(self._number[who] & 1)

    def _seek(self, who: int, at: Seconds) -> None:
        number, begins, ends = self._number[who], self._begins[who], self._ends[who]
        if begins <= at < ends:
            return
        if at < begins:
            number, ends = -1, 0.0
        first = self._first[who]
        while ends <= at:
            number += 1
            begins = ends
            mean = self._mean[first is not bool(number & 1)]
            ends = begins + mean * self._stretches.one(who, number)
            if ends <= begins:  # too short for a time in float64
                ends = math.nextafter(begins, math.inf)
        self._number[who], self._begins[who], self._ends[who] = number, begins, ends


class Diurnal:
    """Availability for a share of each day, which begins by the device's time zone.

    Day d of a device begins at ``phase + d * day_seconds``; a draw for each day decides
    whether the device comes. The first day is day -1, in which time 0 lies.
    """

    deserted = math.inf

    def __init__(self, config: AvailabilityConfig, key: Key, count: int) -> None:
        self._day = config.day_seconds
        self._length = config.share * config.day_seconds
        self._attendance = config.attendance
        self._all_day = config.share > _ALL_DAY
        zone_N = np.floor(Chance(key.fold_in("zone"), count).each() * config.zones)
        begin_N = Chance(key.fold_in("phase"), count).each() * config.zone_spread
        share_N = (zone_N / config.zones + begin_N) % 1.0
        self._phase: list[float] = (share_N * self._day).tolist()
        self._days = Chance(key.fold_in("day"), count)

    def next_change(self, who: int, after: Seconds) -> Change | None:
        """Returns the end of the device's stay, or the beginning of the next one."""
        if self._all_day and self._attendance == 1:
            return None
        day = self._day_of(who, after)
        is_there = self._is_there(who, day, after)
        if is_there and not self._all_day:
            return self._begin(who, day) + self._length, False
        day += 1
        while self._comes(who, day) is is_there:
            day += 1
        return self._begin(who, day), not is_there

    def is_there(self, who: int, at: Seconds) -> bool:
        """Returns whether the device comes on that day and its stay is not over."""
        return self._is_there(who, self._day_of(who, at), at)

    def _is_there(self, who: int, day: int, at: Seconds) -> bool:
        still = self._all_day or at < self._begin(who, day) + self._length
        return still and self._comes(who, day)

    def _comes(self, who: int, day: int) -> bool:
        return self._attendance == 1 or self._days.one(who, day + 1) < self._attendance

    def _begin(self, who: int, day: int) -> Seconds:
        return self._phase[who] + day * self._day

    def _day_of(self, who: int, at: Seconds) -> int:
        """Returns the last day that has begun, by the arithmetic of :meth:`_begin`."""
        day = math.floor((at - self._phase[who]) / self._day)
        while self._begin(who, day) > at:
            day -= 1
        while self._begin(who, day + 1) <= at:
            day += 1
        return day


class Recorded:
    """Availability from a trace: device i follows client i modulo their number."""

    def __init__(
        self,
        stays: Iterable[Sequence[tuple[Seconds, Seconds]]],
        period: Seconds = math.inf,
    ) -> None:
        """Takes the stays of each client.

        Args:
            stays: the beginnings and ends of each client's stays, in order.
            period: the time after which they repeat.
        """
        self._period = period
        self.deserted = 0.0 if math.isinf(period) else math.inf
        self._times = array("d")  # of all changes, client after client
        self._places = [0]
        self._first: list[bool] = []
        self._head: list[bool] = []  # whether it is available after its first change
        for own in stays:
            first = bool(own) and own[0][0] == 0
            if own:
                self.deserted = max(self.deserted, own[-1][1])
            times = [time for stay in own for time in stay if 0 < time < period]
            if math.isfinite(period) and len(times) % 2:
                times.insert(0, 0.0)  # a period ends in another state than it begins
                self._head.append(first)
            else:
                self._head.append(not first)
            self._first.append(first)
            self._times.extend(times)
            self._places.append(len(self._times))

    def next_change(self, who: int, after: Seconds) -> Change | None:
        """Returns the next change of this period, or the first of the next period."""
        who %= len(self._first)
        low, high = self._places[who], self._places[who + 1]
        if low == high:
            return None
        begin, period, times = 0.0, self._period, self._times
        number = 0
        if math.isfinite(period):
            number = max(0, math.floor(after / period) - 1)
            begin = number * period
        while True:
            at = bisect_right(times, after - begin, low, high)
            while at > low and begin + times[at - 1] > after:
                at -= 1
            while at < high and begin + times[at] <= after:
                at += 1
            if at < high:
                return begin + times[at], self._head[who] is not bool(at - low & 1)
            if math.isinf(period):
                return None
            number += 1
            begin = number * period

    def is_there(self, who: int, at: Seconds) -> bool:
        """Returns the opposite of the device's state after the next change."""
        change = self.next_change(who, at)
        if change is not None:
            return not change[1]
        who %= len(self._first)
        changes = self._places[who + 1] - self._places[who]
        return self._first[who] is not bool(changes & 1)
