"""Saved series of measurements, and what may be quoted of them."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from tests.docs.pages import ROOT

Saved = Any  # what json.loads returns
NUMBER = re.compile(r"(?:\d[\d,]*\d|\d)(?:\.\d+)?(?:e[+-]\d+)?|\.\d+")
RANGE = re.compile(rf"(-?(?:{NUMBER.pattern})) to (-?(?:{NUMBER.pattern}))")


READ = set[str]()  # the names of the results that pages have quoted


def saved(name: str, *keys: str) -> Saved:
    """The results of a benchmark, or the part of them below some keys."""
    READ.add(": ".join((name, *keys)))
    found = _read(name)
    for key in keys:
        found = found[key]
    return found


@cache
def _read(name: str) -> Saved:
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


class Series(NamedTuple):
    """One quantity, a value for each run."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Series":
        return cls(tuple(map(float, values)))

    @property
    def told(self) -> list[float]:
        """What stands for all of it: ends, middle, mean and deviation."""
        ends = [min(self.values), max(self.values)]
        spread = [stdev(self.values)] if len(self.values) > 1 else []
        return [*ends, median(self.values), fmean(self.values), *spread]

    def over(self, other: "Series") -> "Series":
        """The ratios, run by run."""
        pairs = zip(self.values, other.values, strict=True)
        return Series.of(mine / theirs for mine, theirs in pairs)

    def less(self, other: "Series") -> "Series":
        """The differences, run by run."""
        pairs = zip(self.values, other.values, strict=True)
        return Series.of(mine - theirs for mine, theirs in pairs)

    def times(self, factor: float) -> "Series":
        return Series.of(value * factor for value in self.values)


def series_in(tree: Saved) -> Iterator[Series]:
    """Every list of numbers in a part of a file is a series, every number one too."""
    if isinstance(tree, bool) or tree is None or isinstance(tree, str):
        return
    if isinstance(tree, int | float):
        yield Series.of([tree])
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from series_in(value)
    elif tree and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in tree
    ):
        yield Series.of(tree)
    else:
        for value in tree:
            yield from series_in(value)


class Pool:
    """The series that a row or a paragraph may quote."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._series = [s for s in series if s.values and all(map(math.isfinite, s[0]))]
        self._told = [abs(value) for each in self._series for value in each.told]

    def has(self, number: str) -> bool:
        """Whether a number is one of theirs, as precise as it is written."""
        return any(_rounds_to(value, number) for value in self._told)

    def has_range(self, low: str, high: str) -> bool:
        """Whether these are the lowest and the highest value of a series."""
        return any(
            _rounds_to(min(s.values), low) and _rounds_to(max(s.values), high)
            for s in self._series
        )

    def foreign(self, text: str) -> list[str]:
        """What of a text's ranges and numbers is not in them."""
        found = [
            f"{low} to {high}"
            for low, high in RANGE.findall(text)
            if not self.has_range(low, high)
        ]
        return found + [n for n in NUMBER.findall(text) if not self.has(n)]


def _rounds_to(value: float, number: str) -> bool:
    """As precise as it is written; of a large number three digits count at least."""
    digits, _, power = number.replace(",", "").partition("e")
    value /= 10.0 ** int(power or 0)
    decimals = len(digits.partition(".")[2])
    if not decimals:
        zeros = len(digits) - len(digits.rstrip("0"))
        decimals = -max(0, min(zeros, len(digits) - 3))
    return abs(value - float(digits)) <= 0.5 * 10**-decimals * (1 + 1e-6)


def pool(*trees: Saved, more: Sequence[Series] = ()) -> Pool:
    """Of parts of files, and of series that follow from them."""
    return Pool([*(s for tree in trees for s in series_in(tree)), *more])
