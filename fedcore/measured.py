"""A device's report of itself, and the cost of a task there.

All of it is a claim of the peer. A fact that no device can have counts as absent, and
any fact may be absent.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from fedcore.text import printable
from fedcore.typing import Seconds

LONGEST_MODEL = 64  # characters of a device model's name
MOST_SECONDS: Seconds = 1e7  # of a task
MOST_JOULES = 1e12

Number = TypeVar("Number", int, float)


class Device(NamedTuple):
    """Facts of a device at the time of a task; None: unknown."""

    model: str = ""
    """The name of the device model; empty: unknown."""
    cores: int | None = None
    mhz: float | None = None
    """The mean of the cores' highest frequencies."""
    memory: int | None = None
    """Bytes, of which ``free`` are available now."""
    free: int | None = None
    celsius: float | None = None
    battery: float | None = None
    """The share of its charge, from 0 to 1."""
    core_watts: float | None = None
    """The energy for each second that a core was busy, in the task before."""

    def clean(self) -> "Device":
        """Returns the device without what cannot be, and with a name that prints."""
        return Device(
            printable(self.model)[:LONGEST_MODEL],
            _within(self.cores, 1, 1 << 16),
            _within(self.mhz, 1, 1e6),
            _within(self.memory, 1, 1 << 50),
            _within(self.free, 0, 1 << 50),
            _within(self.celsius, -100, 200),
            _within(self.battery, 0, 1),
            _within(self.core_watts, 0, 1e6),
        )


class Measured(NamedTuple):
    """The cost of a task's local training; None: unknown."""

    samples: int = 0
    """How many samples its steps used, each as often as it was used."""
    seconds: Seconds | None = None
    joules: float | None = None
    device: Device | None = None
    """The device as it was when the task was asked for."""

    def clean(self) -> "Measured":
        """Returns the measurements without what cannot be."""
        device = self.device
        return Measured(
            _within(self.samples, 0, 1 << 40) or 0,
            _within(self.seconds, 0, MOST_SECONDS),
            _within(self.joules, 0, MOST_JOULES),
            None if device is None else device.clean(),
        )


class TaskReport(NamedTuple):
    """The server's facts about a task that has ended."""

    at: Seconds
    """When its update got its verdict."""
    client: str
    """The client's id."""
    base: int
    """The version that it trained on."""
    steps: int
    """0: its update was what a leaving client's memory held."""
    loss: float | None = None
    """The mean training loss over the steps; None: unknown."""
    measured: Measured | None = None
    """What it took on its device; None: unknown."""
    samples: int = 0
    """The number of samples that the client has."""


def read_measured(saved: Sequence[Any] | None) -> Measured | None:
    """Returns what was saved as JSON: a list of the fields; None without it."""
    if saved is None:
        return None
    samples, seconds, joules, device = saved
    known = None if device is None else Device(*device)
    return Measured(samples, seconds, joules, known)


def _within(value: Number | None, least: float, most: float) -> Number | None:
    if value is None or not math.isfinite(value) or not least <= value <= most:
        return None
    return value
