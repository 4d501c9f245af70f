"""The events of a drill of eight hospitals, with their times in minutes.

A schedule depends only on its seed and its length, so all rules for making versions go
through the same events.
"""

from typing import Literal, NamedTuple

import numpy as np

from fedcore.rng import Key

Minutes = float

SITES = 8
LATE = 0  # the site that is always late, and alone has some classes
CRASHES = 4
LATE_TASK: Minutes = 20.0
TASKS: tuple[Minutes, Minutes] = (
    4.0,
    7.0,
)  # of the others, the fastest and the slowest
HORIZON: Minutes = 360.0

DROPS_EVERY: Minutes = 10.0  # VPN drops, one site at a time
DROP: tuple[Minutes, Minutes] = (3.0, 8.0)
OUTAGE: Minutes = 8.0  # of the network that all sites share
CRASHED: Minutes = 12.0
DOWN: Minutes = 2.0  # until a killed server is started again
# When what happens, as shares of the horizon.
DISCONNECTS = (0.15, 0.5, 0.8)
OUTAGE_AT, CRASH_AT, KILLS_AT = 0.3, 0.45, (0.4, 0.7)
CALM = 0.06  # before the first drop, and after the last event

Kind = Literal["drop", "outage", "disconnect", "crash", "kill"]


class Event(NamedTuple):
    """Something that happens, and how long it lasts."""

    at: Minutes
    kind: Kind
    minutes: Minutes = 0.0
    site: int | None = None  # all of them, or the server

    @property
    def end(self) -> Minutes:
        """When all is as before."""
        return self.at + self.minutes

    def __str__(self) -> str:
        """In a diary."""
        whom = "all sites" if self.site is None else f"hospital-{self.site}"
        match self.kind:
            case "drop":
                return f"the VPN of {whom} is down for {self.minutes:.1f} min"
            case "outage":
                return f"the network is down for {self.minutes:.0f} min"
            case "disconnect":
                return "all connections are broken, whatever they carry"
            case "crash":
                return f"SIGKILL for {whom}; back in {self.minutes:.0f} min"
            case "kill":
                return f"SIGKILL for the server; back in {self.minutes:.0f} min"


def schedule(seed: int, horizon: Minutes = HORIZON) -> list[Event]:
    """What happens, in order."""
    rng = Key.root(seed).fold_in("hospitals").generator()
    last = (1 - CALM) * horizon
    events = [Event(share * horizon, "disconnect") for share in DISCONNECTS]
    events.append(Event(OUTAGE_AT * horizon, "outage", OUTAGE))
    crash = Event(CRASH_AT * horizon, "crash", CRASHED, CRASHES)
    events.append(crash)
    events += [Event(share * horizon, "kill", DOWN) for share in KILLS_AT]
    at = CALM * horizon
    while True:
        at += float(rng.uniform(0.5, 1.5)) * DROPS_EVERY
        drop = Event(at, "drop", float(rng.uniform(*DROP)), int(rng.integers(SITES)))
        if drop.end >= last:
            return sorted(events, key=lambda event: event.at)
        if drop.site != CRASHES or not _overlaps(drop, crash):
            events.append(drop)


def task_minutes() -> list[Minutes]:
    """How long a task takes at each site."""
    return [LATE_TASK, *np.linspace(*TASKS, SITES - 1).tolist()]


def absences(events: list[Event], site: int) -> list[tuple[Minutes, Minutes]]:
    """When the network or the site itself is down; in order, without overlaps."""
    found: list[tuple[Minutes, Minutes]] = []
    for event in sorted(events, key=lambda event: event.at):
        is_its_own = event.kind in ("drop", "crash") and event.site == site
        if not is_its_own and event.kind != "outage":
            continue
        if found and event.at <= found[-1][1]:
            start, end = found.pop()
            found.append((start, max(end, event.end)))
        else:
            found.append((event.at, event.end))
    return found


def _overlaps(one: Event, other: Event) -> bool:
    return one.at < other.end and other.at < one.end
