"""The settings that a sweep tries: all points of a grid, or random draws.

``--grid algorithm.buffer=4,8,16`` lists values, and ``--range
algorithm.client.lr=log:0.01:1`` names an interval to draw from. Fields and values are
those of ``--set``; a text is read as YAML when a config takes it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedrun.config.yaml_text import value_text
from fedstudies.typed import split

SCALES = ("linear", "log", "int")
_DIGITS = 4  # significant ones of a draw


class Axis(NamedTuple):
    """A field with the values to try."""

    field: str
    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """Draws one of the values."""
        return self.values[int(rng.integers(len(self.values)))]


class Span(NamedTuple):
    """A field with a range to draw from, both ends included."""

    field: str
    scale: str
    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """Draws a whole number, or one of four significant digits."""
        if self.scale == "int":
            return int(rng.integers(int(self.low), int(self.high) + 1))
        if self.scale == "log":
            low, high = math.log(self.low), math.log(self.high)
            value = math.exp(rng.uniform(low, high))
        else:
            value = rng.uniform(self.low, self.high)
        rounded = float(f"{value:.{_DIGITS}g}")
        return min(max(rounded, self.low), self.high)


class Point(NamedTuple):
    """Fields with their values."""

    settings: tuple[tuple[str, Any], ...]

    @property
    def changes(self) -> dict[str, Any]:
        """The values by field."""
        return dict(self.settings)

    @property
    def texts(self) -> dict[str, str]:
        """The values by field as they are shown."""
        return {field: value_text(value) for field, value in self.settings}

    def name(self, fields: Mapping[str, str]) -> str:
        """A short name: ``buffer=4 lr=0.1``."""
        return " ".join(f"{fields[field]}={text}" for field, text in self.texts.items())


def read_grid(option: str, typed: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Reads ``field=value,value`` of each text.

    Raises:
        ConfigError: a text has another form, or a field is named twice.
    """
    found: dict[str, Sequence[Any]] = {}
    for text in typed:
        field, equals, values = text.partition("=")
        parts = [part.strip() for part in split(values)]
        if not equals or not field.strip() or not all(parts):
            raise ConfigError(
                f"{option} {text}: expected field=value,value, such as "
                "algorithm.buffer=4,8"
            )
        found[_once(field, found, f"{option} {text}")] = parts
    return found


def read_ranges(option: str, typed: Sequence[str]) -> dict[str, Sequence[str | float]]:
    """Reads ``field=scale:low:high`` of each text.

    Raises:
        ConfigError: a text has another form, or a field is named twice.
    """
    found: dict[str, Sequence[str | float]] = {}
    for text in typed:
        field, _, span = text.partition("=")
        scale, *ends = span.strip().split(":")
        given: list[str | float] = []
        with suppress(ValueError):  # it is refused below
            given = [scale, *map(float, ends)]
        _span(field.strip(), given, f"{option} {text}")
        found[_once(field, found, f"{option} {text}")] = given
    return found


def axes_of(grid: Mapping[str, Sequence[Any]]) -> list[Axis]:
    """Returns the fields of a grid with their values, each once.

    Raises:
        ConfigError: the values of a field are no list.
    """
    found = []
    for field, values in grid.items():
        is_list = hasattr(values, "__len__") and not isinstance(values, str | Mapping)
        if not is_list or not len(values):
            raise ConfigError(
                f"grid: {field}: expected a list of values such as [4, 8], got "
                f"{values!r}"
            )
        plain = [v.item() if hasattr(v, "item") else v for v in values]
        distinct = {value_text(value): value for value in reversed(plain)}
        values = tuple(reversed(distinct.values()))
        found.append(Axis(_field(field, f"grid: {field}"), values))
    return found


def spans_of(ranges: Mapping[str, Sequence[str | float]]) -> list[Span]:
    """Returns the fields with the intervals to draw from.

    Raises:
        ConfigError: an interval is empty, or has another form.
    """
    found = []
    for field, span in ranges.items():
        if isinstance(span, str) or not isinstance(span, Sequence):
            raise ConfigError(
                f"ranges: {field}: expected a scale and two ends, such as "
                f"('log', 0.01, 1), got {span!r}"
            )
        source = f"--range {field}={':'.join(map(str, span))}"
        found.append(_span(field, span, source))
    return found


def _span(field: str, given: Sequence[str | float], source: str) -> Span:
    scale, low, high = given if len(given) == 3 else ("", math.nan, math.nan)
    if (
        not field
        or scale not in SCALES
        or isinstance(low, str)
        or isinstance(high, str)
        or not low < high < math.inf
    ):
        raise ConfigError(
            f"{source}: expected field=SCALE:LOW:HIGH with LOW below HIGH and SCALE "
            f"one of {', '.join(SCALES)}, such as algorithm.client.lr=log:0.01:1"
        )
    if scale == "log" and low <= 0:
        raise ConfigError(f"{source}: a log range begins above 0, got {low:g}")
    if scale == "int" and not (float(low).is_integer() and float(high).is_integer()):
        raise ConfigError(f"{source}: an int range has whole numbers as ends")
    return Span(_field(field, source), str(scale), low, high)


def _once(text: str, known: Mapping[str, Any], source: str) -> str:
    field = _field(text, source)
    if field in known:
        raise ConfigError(f"{field} is named twice by --grid and --range")
    return field


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
    return list({tuple(point.texts.values()): point for point in drawn}.values())


def numbers(values: Sequence[Any]) -> list[str] | list[int] | list[float]:
    """The values of a field for a table: as numbers if all of them are numbers."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return [*values]
    texts = [value_text(value) for value in values]
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
