"""Formats numbers for people."""

from typing import NamedTuple

_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_TIMES = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))


class Unit(NamedTuple):
    """The unit of an axis."""

    size: float
    name: str


def time_unit(seconds: float) -> Unit:
    """Returns the unit in which a run of this length is easy to read."""
    return next((Unit(*u) for u in _TIMES if seconds >= 3 * u[0]), Unit(1.0, "seconds"))


def byte_unit(nbytes: float) -> Unit:
    """Returns the unit in which this number of bytes is easy to read."""
    return next((Unit(*u) for u in _BYTES if nbytes >= 2 * u[0]), Unit(1.0, "bytes"))


def in_bytes(nbytes: float) -> str:
    """Formats bytes in three digits: ``1.23 MB``, ``12 bytes``."""
    for size, name in _BYTES:
        if nbytes >= size:
            return f"{digits(nbytes / size)} {name}"
    return amount(round(nbytes), "byte")


def unbroken_bytes(nbytes: float) -> str:
    """Formats bytes without a line break before the unit."""
    return in_bytes(nbytes).replace(" ", "\u00a0")


def in_seconds(seconds: float) -> str:
    """Formats a time: ``64.7 s``, ``12 min 3 s``, ``3 h 20 min``, ``2 days 5 h``."""
    if seconds < 120:
        return f"{digits(seconds)} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} days {whole % 86_400 // 3600} h"


def digits(value: float) -> str:
    """Formats a number in three digits: ``0.0123``, ``12.3``, ``1,230``."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def metric(value: float | None) -> str:
    """Formats a metric in four significant digits."""
    return "–" if value is None else f"{value:.4g}"


def amount(count: int, noun: str, nouns: str = "") -> str:
    """Formats a number of things: ``1 update``, ``1,200 updates``."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def versus(nbytes: int, uncompressed: int) -> str:
    """Compares bytes with those of an uncompressed exchange."""
    if not nbytes:
        return "nothing was transferred"
    if not uncompressed:
        return "neither updates nor models were transferred"
    if nbytes < uncompressed:
        return f"{times(nbytes, uncompressed)} less than uncompressed float32"
    return f"{100 * nbytes / uncompressed:.4g} % of uncompressed float32"


def times(small: float, large: float) -> str:
    """Says how many times smaller: ``26.3 times``; a dash if it is not smaller."""
    return f"{digits(large / small)} times" if 0 < small < large else "–"
