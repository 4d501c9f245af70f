"""Words of a command line, and of what it answers."""

from collections.abc import Sequence

from rich.console import Console

from fedrun.report import units
from fedsim.campaign.statistics import Estimate

WIDTH = 140  # of the table where there is no terminal


def split(text: str) -> list[str]:
    """The parts between commas, except for those inside a list or a section."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def with_interval(found: Estimate) -> str:
    """A metric's mean with its 95 % interval: ``0.9062 ± 0.0031``."""
    if not found.size:
        return "–"
    around = f" ± {found.half:.2g}" if found.half else ""
    return f"{units.metric(found.mean)}{around}"


def column(estimates: Sequence[Estimate], unit: units.Unit) -> list[str]:
    """Costs with their intervals, all in one unit: ``1,230 ± 12``."""
    return [
        f"{units.digits(e.mean / unit.size)} ± {units.digits(e.half / unit.size)}"
        if e.half
        else units.digits(e.mean / unit.size)
        if e.size
        else "–"
        for e in estimates
    ]


def largest(estimates: Sequence[Estimate]) -> float:
    """The largest mean, for the unit of a column."""
    return max((e.mean for e in estimates if e.size), default=0.0)


def screen() -> Console:
    """Where a wide table is printed; off a terminal it is as wide as it likes."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    return console
