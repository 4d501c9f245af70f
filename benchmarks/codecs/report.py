"""The tables, on a terminal, as Markdown and as JSON."""

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.codecs.codec import STAGES, Measured
from benchmarks.codecs.sparse import Additions
from benchmarks.speed.measure import Figure
from fedcore.typing import JSON

COLUMNS = ("bytes", "bits", "error", *STAGES, "encode + decode", "to bytes and back")
Rows = Mapping[str, Measured | None]  # None: not installed


def cells(measured: Measured | None) -> list[str]:
    """The columns of a codec."""
    if measured is None:
        return ["not installed"] + [""] * (len(COLUMNS) - 1)
    known = measured.passes
    times = [f"{measured.time(s):.3g}" if s in known else "" for s in STAGES]
    return [
        f"{measured.nbytes:,}",
        f"{measured.bits:.3g}",
        f"{measured.error:.2g}",
        *times,
        f"{measured.time('encode', 'decode'):.3g}",
        f"{measured.time('encode', 'pack', 'unpack', 'decode'):.3g}",
    ]


def show(console: Console, title: str, rows: Rows) -> None:
    """A table of codecs."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("times in passes", no_wrap=True)
    for column in COLUMNS:
        grid.add_column(column, justify="right")
    for name, measured in rows.items():
        grid.add_row(name, *cells(measured))
    console.print(grid)


def markdown(rows: Rows) -> Iterator[str]:
    """The same table, line by line, for the documentation."""
    yield " | ".join(["| codec", *COLUMNS]) + " |"
    yield "| --- |" + " ---: |" * len(COLUMNS)
    for name, measured in rows.items():
        yield " | ".join([f"| {name}", *cells(measured)]) + " |"


def show_times(console: Console, title: str, times: Mapping[str, Figure]) -> None:
    """A line for each thing that was timed."""
    console.print(title)
    for name, figure in times.items():
        console.print(f"  {name}: {figure}")


def by_size(found: Additions) -> dict[str, Figure]:
    """Lines for :func:`show_times`, with what a value costs."""
    return {
        f"{k:,} values to {dim:,}, {1e3 * time.median / k:.1f} ns each": time
        for (dim, k), time in found.items()
    }


def rows_json(rows: Rows) -> JSON:
    """Every figure, and the passes of every round."""
    return {name: measured and _row_json(measured) for name, measured in rows.items()}


def _row_json(measured: Measured) -> JSON:
    return {
        "bytes": measured.nbytes,
        "bits": _rounded(measured.bits),
        "error": _rounded(measured.error),
        "passes": {s: figure_json(f) for s, f in measured.passes.items()},
    }


def figure_json(figure: Figure) -> JSON:
    """The median, and the value of each round."""
    return {
        "median": _rounded(figure.median),
        "values": [_rounded(value) for value in figure.values],
    }


def times_json(times: Mapping[str, Figure]) -> JSON:
    """Named times."""
    return {name: figure_json(figure) for name, figure in times.items()}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def all_json(each: Mapping[str, Rows]) -> JSON:
    """All tables, by their titles."""
    return {title: rows_json(rows) for title, rows in each.items()}


def verdicts(console: Console, targets: Sequence[object]) -> None:
    """Each target with its figure."""
    console.print("targets, of the worst vector:")
    for target in targets:
        console.print(f"  {target}")
