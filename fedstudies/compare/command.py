"""What ``fedsim compare`` does: a table, the differences, and sentences."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from fedrun.plain_files import write_text
from fedstudies.compare.comparison import COSTS, Comparison, compare
from fedstudies.compare.sides import read_sides
from fedstudies.curves import curves_figure
from fedstudies.tables import Cells, cost_columns, screen, tell, with_interval
from fedview.report.page import Section, note, page, plot, text

_INTRO = """<h1>Comparison by {metric}</h1>
<div class="verdict plain">{sentences}</div>"""


def compare_runs(
    names: Sequence[str], metric: str | None, target: float | None, out: Path | None
) -> None:
    """Compares the runs in these folders, and prints the comparison.

    Args:
        names: folders of runs or sweeps; ``FOLDER:2`` is a row of a sweep.
        metric: the metric to compare by.
        target: the value of the metric up to which costs are counted.
        out: the file of a page; None: no page is written.
    """
    comparison = compare(read_sides(names), metric, target)
    screen().print(_cells(comparison).on_screen())
    for line in _differences(comparison):
        click.echo(line)
    for line in comparison.sentences():
        click.echo(line)
    if out is not None:
        write_page(comparison, out)
        tell(Console(stderr=True), f"page: {out}")


def write_page(comparison: Comparison, out: Path) -> None:
    """Writes the page with the curves."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, _page(comparison))


def _differences(comparison: Comparison) -> list[str]:
    """How the configs differ from the first one."""
    first, *others = comparison.sides
    found = []
    for side in others:
        lines = first.differences(side) or ["the config is the same"]
        found += [f"{side.name}: {line}" for line in lines]
    return found


def _cells(comparison: Comparison) -> Cells:
    sides, metric = comparison.sides, comparison.metric
    missed = [comparison.missed(side) for side in sides]
    heads, costs = cost_columns(
        {name: [comparison.cost(side, name) for side in sides] for name in COSTS}
    )
    columns = [
        [side.name for side in sides],
        [str(len(side.trials)) for side in sides],
        [with_interval(side.final(metric)) for side in sides],
        [with_interval(side.best(metric)) for side in sides],
        *costs,
        [f"{count} never" if count else "" for count in missed],
    ]
    goals = [f"{head} to {comparison.target:.4g}" for head in heads]
    head = ["", "seeds", f"final {metric}", "best", *goals, ""]
    return Cells(head, list(zip(*columns, strict=True)), " rrrrrr ")


def _paragraph(line: str) -> str:
    """A line of the terminal: a heading, one of the points below it, or a remark."""
    if line.startswith("  "):
        return f'<p class="point">{text(line.strip())}</p>'
    if line.endswith(":"):
        return f"<p><strong>{text(line)}</strong></p>"
    return f"<p>{text(line)}</p>"


def _page(comparison: Comparison) -> str:
    figure = curves_figure(comparison.sides, comparison.metric, comparison.target)
    title = f"{comparison.metric} over versions, time and payload"
    lead = "The mean over the seeds with its 95 % interval; the target is dotted."
    sentences = "".join(map(_paragraph, comparison.sentences()))
    differences = "".join(note(text(line)) for line in _differences(comparison))
    return page(
        f"Comparison by {comparison.metric}",
        _INTRO.format(metric=text(comparison.metric), sentences=sentences),
        [
            Section("curves", "Curves", lead, [plot(figure, title)]),
            Section(
                "sides",
                "Numbers",
                "Means with 95 % intervals (Student t) over the seeds; payload counts "
                "up and down, without what carried it.",
                [_cells(comparison).on_page(), differences],
            ),
        ],
    )
