"""The facts of this device, as its operating system tells them.

They are read from files of Linux and from ``os.sysconf``, without a further package.
What is not told there is absent. Nothing is read unless a controller of the run looks
at it.
"""

import os
import platform
from pathlib import Path

from fedcore.measured import Device

_MODELS = (
    Path("/sys/firmware/devicetree/base/model"),
    Path("/sys/class/dmi/id/product_name"),
)
_CPUS = Path("/sys/devices/system/cpu")
_HEAT = Path("/sys/class/thermal")
POWER = Path("/sys/class/power_supply")
_MEMORY = Path("/proc/meminfo")
_ENERGY = Path("/sys/class/powercap/intel-rapl:0/energy_uj")


def this_device() -> Device:
    """Returns what is known of this device now."""
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
    """Returns what the processor has used since some time in the past, in joules.

    None where the counter cannot be read; it begins anew at its end.
    """
    return number(_ENERGY, 1e-6)


def joules_since(before: float | None) -> float | None:
    """Returns the joules that the processor has used since; None: not known."""
    now = joules()
    if before is None or now is None or now < before:
        return None
    return now - before


def _cores() -> int | None:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory() -> tuple[int | None, int | None]:
    """Returns the bytes of memory, and how many of them are available."""
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
    """Returns the name of the machine, or of its kind of processor."""
    names = (text(path).strip("\0 \n") for path in _MODELS)
    return next(filter(None, names), platform.machine())


def files(folder: Path, pattern: str) -> list[Path]:
    """Returns what is in a folder, in order; nothing if it cannot be read."""
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
    """Returns what a file says; nothing if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def mean(found: list[float | None]) -> float | None:
    """Returns the mean of what is known; None if nothing is."""
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known else None
