"""The settings that a sweep tries: all points of a grid, or random draws.

``--grid algorithm.buffer=4,8,16`` lists values, and ``--range
algorithm.client.lr=log:0.01:1`` names an interval to draw from. Fields and values are
written as for ``--set``.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedstudies.typed import split

SCALES = ("linear", "log", "int")
_DIGITS = 4  # significant ones of a draw


class Axis(NamedTuple):
    """A field with the values to try."""

    field: str
    values: tuple[str, ...]

    def draw(self, rng: np.random.Generator) -> str:
        """Draws one of the values."""
        return self.values[int(rng.integers(len(self.values)))]


class Span(NamedTuple):
    """A field with a range to draw from, both ends included."""

    field: str
    scale: str
    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> str:
        """Draws a whole number, or one of four significant digits."""
        if self.scale == "int":
            return str(int(rng.integers(int(self.low), int(self.high) + 1)))
        if self.scale == "log":
            low, high = math.log(self.low), math.log(self.high)
            value = math.exp(rng.uniform(low, high))
        else:
            value = rng.uniform(self.low, self.high)
        rounded = float(f"{value:.{_DIGITS}g}")
        return _yaml(min(max(rounded, self.low), self.high))


class Point(NamedTuple):
    """Fields with their values, as ``--set`` takes them."""

    settings: tuple[tuple[str, str], ...]

    @property
    def changes(self) -> tuple[str, ...]:
        """``field=value`` for each."""
        return tuple(f"{field}={value}" for field, value in self.settings)

    def name(self, fields: dict[str, str]) -> str:
        """A short name: ``buffer=4 lr=0.1``."""
        return " ".join(f"{fields[field]}={value}" for field, value in self.settings)


def read_axis(text: str) -> Axis:
    """Reads ``field=value,value``.

    Raises:
        ConfigError: the text has another form.
    """
    field, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(part.strip() for part in split(values)))
    if not equals or not field.strip() or not all(found):
        raise ConfigError(
            f"--grid {text}: expected field=value,value, such as algorithm.buffer=4,8"
        )
    return Axis(_field(field, f"--grid {text}"), found)


def read_span(text: str) -> Span:
    """Reads ``field=scale:low:high``.

    Raises:
        ConfigError: the text has another form, or the interval is empty.
    """
    field, equals, span = text.partition("=")
    scale, *ends = span.strip().split(":")
    try:
        low, high = map(float, ends)
    except ValueError:
        low = high = math.nan
    if not (equals and field.strip() and scale in SCALES and low < high < math.inf):
        raise ConfigError(
            f"--range {text}: expected field=SCALE:LOW:HIGH with LOW below HIGH and "
            f"SCALE one of {', '.join(SCALES)}, such as algorithm.client.lr=log:0.01:1"
        )
    if scale == "log" and low <= 0:
        raise ConfigError(f"--range {text}: a log range begins above 0, got {low:g}")
    if scale == "int" and not (low.is_integer() and high.is_integer()):
        raise ConfigError(f"--range {text}: an int range has whole numbers as ends")
    return Span(_field(field, f"--range {text}"), scale, low, high)


def _field(text: str, source: str) -> str:
    field = text.strip()
    if field == "seed":
        raise ConfigError(f"{source}: the option --seeds sets the seeds")
    return field


def points_of(
    axes: Sequence[Axis], spans: Sequence[Span], draws: int | None, seed: int
) -> list[Point]:
    """The points of a sweep, each once.

    A draw depends only on the seed, its number and its field. So the first draws stay
    the same with more draws or another field.

    Args:
        axes: the fields with values.
        spans: the fields with intervals.
        draws: how many points to draw; None: all points of the grid.
        seed: the seed of the draws.

    Raises:
        ConfigError: a field is named twice, or intervals and draws are not both given.
    """
    drawable: list[Axis | Span] = [*axes, *spans]
    fields = [what.field for what in drawable]
    for field in fields:
        if fields.count(field) > 1:
            raise ConfigError(f"{field} is named twice by --grid and --range")
    if draws is None:
        if spans:
            raise ConfigError("--range needs --random N, the number of points to draw")
        choices = itertools.product(*(axis.values for axis in axes))
        return [Point(tuple(zip(fields, values, strict=True))) for values in choices]
    if not fields:
        raise ConfigError("--random needs --range or --grid to draw from")
    key = Key.root(seed).fold_in("sweep")
    drawn = (
        Point(
            tuple(
                (what.field, what.draw(key.fold_in(number, what.field).generator()))
                for what in drawable
            )
        )
        for number in range(draws)
    )
    return list(dict.fromkeys(drawn))


def numbers(texts: Sequence[str]) -> list[str] | list[int] | list[float]:
    """The values of a field for a table: as numbers if all of them are numbers."""
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            pass
    return list(texts)


def short_names(fields: Sequence[str]) -> dict[str, str]:
    """The shortest end of each field's name that no other field has, such as ``lr``."""
    names = {}
    for field in fields:
        parts = field.split(".")
        for length in range(1, len(parts) + 1):
            end = ".".join(parts[-length:])
            same = [f for f in fields if f == end or f.endswith(f".{end}")]
            if len(same) == 1:
                break
        names[field] = end
    return names


def _yaml(value: float) -> str:
    """A number as YAML, which wants a point before an exponent."""
    text = f"{value:.{_DIGITS}g}"
    mantissa, exponent, power = text.partition("e")
    return text if not exponent or "." in mantissa else f"{mantissa}.0e{power}"
