"""The facts of this device, as its operating system reports them.

They are read from files of Linux and from ``os.sysconf``, without a further package. A
fact that the system does not report is absent. Nothing but the counters of power is
read unless a controller of the run needs it.
"""

import os
import platform
from pathlib import Path
from typing import NamedTuple

from fedcore.measured import Device
from fedcore.typing import Seconds

_MODELS = (
    Path("/sys/firmware/devicetree/base/model"),
    Path("/sys/class/dmi/id/product_name"),
)
_CPUS = Path("/sys/devices/system/cpu")
_HEAT = Path("/sys/class/thermal")
POWER = Path("/sys/class/power_supply")
_MEMORY = Path("/proc/meminfo")
_ENERGY = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
_TIMES = Path("/proc/stat")
_IDLE = slice(3, 5)  # of the times: idle, and waiting for a disk
_LEAST_BUSY: Seconds = 0.1  # of less, the clock's ticks say too little
NO_ENERGY = (
    "the run limits the energy of tasks, and this device does not measure any: "
    f"{_ENERGY} cannot be read"
)


class Power(NamedTuple):
    """The energy counter and the time that all cores were busy, at one moment."""

    joules: float | None = None
    busy: Seconds | None = None

    def joules_since(self, before: "Power") -> float | None:
        """Returns the joules that were used since; None if unknown."""
        if self.joules is None or before.joules is None or self.joules < before.joules:
            return None  # a counter that is full begins anew
        return self.joules - before.joules

    def core_watts(self, before: "Power") -> float | None:
        """Returns the joules for each busy second of a core since; None if unknown."""
        if self.busy is None or before.busy is None:
            return None
        used, busy = self.joules_since(before), self.busy - before.busy
        return None if used is None or busy < _LEAST_BUSY else used / busy


def read_power() -> Power:
    """Returns the counters now."""
    words = text(_TIMES).partition("\n")[0].split()[1:9]
    try:
        ticks = [int(word) for word in words]
        busy = (sum(ticks) - sum(ticks[_IDLE])) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError):
        return Power(joules())
    return Power(joules(), busy if ticks else None)


def this_device() -> Device:
    """Returns the known facts about this device now, without those of its power."""
    cores = _cores()
    mhz = [number(path, 1e-3) for path in files(_CPUS, "cpu*/cpufreq/*_max_freq")]
    heat = [number(path, 1e-3) for path in files(_HEAT, "thermal_zone*/temp")]
    charge = [number(path, 1e-2) for path in files(POWER, "BAT*/capacity")]
    memory, free = _memory()
    return Device(
        _model(),
        cores,
        mean(mhz),
        memory,
        free,
        max((each for each in heat if each is not None), default=None),
        mean(charge),
    ).clean()


def joules() -> float | None:
    """Returns the processor's energy counter in joules; None if it cannot be read.

    The counter starts at an arbitrary time, and begins anew when it overflows.
    """
    return number(_ENERGY, 1e-6)


def _cores() -> int | None:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory() -> tuple[int | None, int | None]:
    """Returns the bytes of memory in all, and of available memory."""
    found = {}
    for line in text(_MEMORY).splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable") and rest.split():
            found[name] = 1024 * int(rest.split()[0])
    if "MemTotal" in found:
        return found["MemTotal"], found.get("MemAvailable")
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), None
    except (AttributeError, OSError, ValueError):
        return None, None


def _model() -> str:
    """Returns the name of the machine, or of its type of processor."""
    names = (text(path).strip("\0 \n") for path in _MODELS)
    return next(filter(None, names), platform.machine())


def files(folder: Path, pattern: str) -> list[Path]:
    """Returns the files in a folder, in order; none if it cannot be read."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def number(path: Path, unit: float) -> float | None:
    """Returns the number in a file, in this unit; None if there is none."""
    try:
        return unit * float(text(path))
    except ValueError:
        return None


def text(path: Path) -> str:
    """Returns the content of a file; an empty text if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def mean(found: list[float | None]) -> float | None:
    """Returns the mean of the known values; None if there are none."""
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known else None
