"""What ``fedsim codecs`` does: from a command line to a table, a page and advice."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fedrun.app import app_of, load_app
from fedrun.cli.stoppable import stoppable
from fedrun.config import FederationConfig, load_config, parse_config
from fedrun.config.load import change_config
from fedrun.plain_files import write_text
from fedsim.api import free_folder
from fedstudies.codecs.comparison import Comparison, summary
from fedstudies.codecs.measurements import Measurements
from fedstudies.codecs.numbers import as_json
from fedstudies.codecs.page import codecs_page
from fedstudies.codecs.pairs import pairs_of
from fedstudies.codecs.table import codecs_table
from fedstudies.old_frame import QUIET, Options, Progress, follow
from fedstudies.tables import screen, tell


@dataclass(frozen=True, kw_only=True)
class CodecsOptions(Options):
    """What was asked for on the command line."""

    uplinks: Sequence[str]
    downlinks: Sequence[str]
    versions: int
    tolerance: float


def show_codecs(options: CodecsOptions) -> None:
    """Measures all pairs, writes page and numbers, and recommends a pair.

    After Ctrl-C, the pairs that were measured are printed and written.
    """
    console = Console(stderr=True)
    found, out = _prepared(options)
    try:
        with stoppable():
            _measure(found, out, options, console)
    except KeyboardInterrupt:
        console.print("stopped")
    comparison = found.comparison()
    if comparison is None:
        console.print("nothing to tell: not even the uncompressed pair was measured")
        return
    _tell(comparison, out, console)


def compute_codecs(options: CodecsOptions) -> Comparison:
    """Measures all pairs without printing; returns the comparison.

    Raises:
        ConfigError: a setting is wrong.
        UserCodeError: the user's code raised.
    """
    found, out = _prepared(options)
    _measure(found, out, options, QUIET)
    comparison = found.comparison()
    assert comparison is not None  # all was measured
    _write(comparison, out)
    return comparison


def _prepared(options: CodecsOptions) -> tuple[Measurements, Path]:
    """The measurements to make, and the folder of the results."""
    config, app, place = _federation(options)
    found = Measurements(
        config=config,
        app=app,
        place=place,
        workload=load_app(app, place),
        pairs=pairs_of(config, options.uplinks, options.downlinks),
        versions=options.versions,
        seeds=options.seeds,
        tolerance=options.tolerance,
    )
    found.check()
    return found, options.folder(free_folder(config, "codecs"))


def _federation(options: CodecsOptions) -> tuple[FederationConfig, str, Path]:
    """The config, the app, and the folder where the app is looked for."""
    if options.config is not None:
        config = load_config(options.config, options.changes)
    else:
        raw: dict[str, Any] = {}
        for change in options.changes:
            change_config(raw, change)
        config = parse_config(raw, changes=options.changes)
    return config, *app_of(options.app, config, options.config)


def _measure(
    found: Measurements, out: Path, options: CodecsOptions, console: Console
) -> None:
    pairs = len(found.pairs)

    def timed() -> Generator[Progress]:
        for pair in found.take_times():
            yield Progress(1, str(pair))

    def simulated() -> Generator[Progress]:
        done = 0
        results = found.simulate(out.parent, options.jobs)
        with closing(results):
            for number, _ in results:
                row, line = found.row(number), ""
                if row is not None:
                    done += 1
                    line = f"{done}/{pairs} {summary(row)}"
                yield Progress(1, str(found.pairs[number]), line)

    follow(timed(), "codecs timed", pairs, console)
    follow(simulated(), "simulations", pairs * found.seeds, console)


def _tell(comparison: Comparison, out: Path, console: Console) -> None:
    """Prints the table, the names of files, and last the recommended pair."""
    page, numbers = _write(comparison, out)
    shown = screen()
    shown.print(codecs_table(comparison, shown.width))
    tell(console, f"page: {page}")
    tell(console, f"numbers: {numbers}")
    for doubt in comparison.doubts:
        click.echo(doubt)
    click.echo(comparison.advice)
    if comparison.yaml is not None:
        click.echo(comparison.yaml)


def _write(comparison: Comparison, out: Path) -> tuple[Path, Path]:
    """Writes the page and the numbers; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    page, numbers = out / "codecs.html", out / "codecs.json"
    write_text(page, codecs_page(comparison))
    write_text(numbers, as_json(comparison))
    return page, numbers
