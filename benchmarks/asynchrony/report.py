"""The tables: each contender's time to the target, and its ratio to the others."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.asynchrony.campaign import Campaign
from benchmarks.asynchrony.contenders import BUFFERED, CONTENDERS, OURS, SYNCHRONOUS
from benchmarks.asynchrony.course import Outcome
from benchmarks.codecs.targets import Target
from fedstudies.statistics import Estimate, estimate

SOONER = 3.0  # than synchronous, at the lower target

Outcomes = Sequence[Outcome]  # one a seed


class Ratio(NamedTuple):
    """A geometric mean over seeds, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """1.5 (1.1 to 2.0)."""
        if math.isnan(self.low):
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def times(outcomes: Outcomes, target: float) -> list[float]:
    """When each run was there."""
    return [outcome.reaches(target) for outcome in outcomes]


def sooner(theirs: Outcomes, ours: Outcomes, target: float) -> Ratio | None:
    """How many times sooner we are, seed by seed; None: not all are ever there."""
    pairs = zip(times(theirs, target), times(ours, target), strict=True)
    ratios = [late / early for late, early in pairs]
    if not all(math.isfinite(ratio) and ratio for ratio in ratios):
        return None
    found = estimate([math.log(ratio) for ratio in ratios])
    half = math.nan if found.half is None else found.half
    ends = (found.mean - half, found.mean + half)
    return Ratio(math.exp(found.mean), *map(math.exp, ends))


def show(console: Console, campaign: Campaign, seeds: Sequence[int]) -> None:
    """The table of a setting, what it says of the goals, and the control."""
    rows, targets = campaign.done(seeds), campaign.setting.problem.targets
    grid = Table(title=campaign.name, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("", no_wrap=True)
    grid.add_column("rates")
    for target in targets:
        grid.add_column(f"time to {target:g}", justify="right")
        grid.add_column("times sooner", justify="right")
    for column in ("first touch", "updates", "staleness", "largest", "too late"):
        grid.add_column(column, justify="right")
    for name, outcomes in rows.items():
        grid.add_row(
            name,
            str(campaign.rates(CONTENDERS[name])),
            *_cells(rows, name, targets),
            ", ".join(told([o.touches(t) for o in outcomes]) for t in targets),
            f"{_mean(o.updates for o in outcomes):,.0f}",
            f"{_mean(o.staleness for o in outcomes):.1f}",
            f"{max(o.largest for o in outcomes):,}",
            f"{_mean(o.rejected for o in outcomes):,.0f}",
        )
    console.print(grid)
    for line in (*remarks(rows, targets), *_control(campaign)):
        console.print(f"  {line}")


def _cells(
    rows: Mapping[str, Outcomes], name: str, targets: Sequence[float]
) -> Iterator[str]:
    for target in targets:
        yield told(times(rows[name], target))
        ratio = None
        if SYNCHRONOUS in rows and name != SYNCHRONOUS:
            ratio = sooner(rows[SYNCHRONOUS], rows[name], target)
        yield "" if ratio is None else str(ratio)


def told(found: Sequence[float]) -> str:
    """The mean of moments with its 95 % interval, or how many runs are never there."""
    missing = sum(math.isinf(when) for when in found)
    if missing:
        return f"never in {missing} of {len(found)}"
    mean: Estimate = estimate(found)
    return f"{mean.mean:.1f}" + ("" if mean.half is None else f" ± {mean.half:.1f}")


def _mean(values: Iterator[float]) -> float:
    return estimate(list(values)).mean


def remarks(rows: Mapping[str, Outcomes], targets: Sequence[float]) -> Iterator[str]:
    """What is claimed, and whether it holds."""
    if OURS not in rows:
        return
    for goal in goals(rows, targets):
        yield str(goal)
    for name in rows:
        if name in (OURS, SYNCHRONOUS):
            continue
        for target in targets:
            ratio = sooner(rows[name], rows[OURS], target)
            if ratio is not None:
                yield f"{OURS} to {target:g}, times as soon as {name}: {ratio}"


def goals(rows: Mapping[str, Outcomes], targets: Sequence[float]) -> Iterator[Target]:
    """Three times sooner than synchronous; sooner than FedBuff."""
    bounds = {SYNCHRONOUS: SOONER, BUFFERED: 1.0}
    for name, bound in bounds.items():
        if name not in rows or OURS not in rows:
            continue
        ratio = sooner(rows[name], rows[OURS], min(targets))
        if ratio is not None:
            text = f"times sooner than {name} at {min(targets):g}"
            yield Target(text, ratio.mean, bound, at_least=True)


def _control(campaign: Campaign) -> Iterator[str]:
    for name, rates, outcome in campaign.controls():
        yield (
            f"control, {name}, {rates}: {outcome.held[-1]:.3f} after "
            f"{outcome.seconds[-1]:.0f}, at best {outcome.best:.3f}"
        )
