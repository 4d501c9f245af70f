"""Decides whether the conditions hold, given the device's readings and the time."""

from datetime import datetime
from typing import NamedTuple

from fedclient.device.conditions.config import Conditions


class Readings(NamedTuple):
    """A device's readings; None where it has no reading."""

    load: float | None = None
    """The share of all cores that other processes use."""
    charging: bool | None = None
    battery: float | None = None
    """The battery's share of its charge; None also without a battery."""
    has_battery: bool = False
    metered: bool | None = None


class Unmet(NamedTuple):
    """A condition that does not hold."""

    name: str
    why: str

    def __str__(self) -> str:
        """Names the condition and the reading."""
        return f"{self.name}: {self.why}"


def unmet(asked: Conditions, read: Readings, now: datetime) -> list[Unmet]:
    """Returns the conditions that do not hold; without a reading, they do not hold.

    Args:
        asked: the conditions.
        read: the device's current readings.
        now: the device's local time.
    """
    found = []
    if asked.idle is not None:
        most = f"the limit is {asked.idle:.0%}"
        if read.load is None:
            found.append(Unmet("idle", f"the load is not known, {most}"))
        elif read.load >= asked.idle:
            found.append(Unmet("idle", f"others use {read.load:.0%}, {most}"))
    if asked.charging and not read.charging:
        known = "on battery" if read.charging is False else "not known"
        found.append(Unmet("charging", known))
    if asked.battery is not None and read.has_battery:
        least = f"the least is {asked.battery:.0%}"
        if read.battery is None:
            found.append(Unmet("battery", f"the charge is not known, {least}"))
        elif read.battery < asked.battery:
            found.append(Unmet("battery", f"{read.battery:.0%}, {least}"))
    if asked.unmetered and read.metered is not False:
        known = "the network is metered" if read.metered else "not known"
        found.append(Unmet("unmetered", known))
    if asked.hours and not any(now.time() in window for window in asked.hours):
        hours = ", ".join(map(str, asked.hours))
        found.append(Unmet("hours", f"it is {now:%H:%M}, outside {hours}"))
    return found
