"""What ``fedsim sweep`` does: from a command line to a table and a page."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from fedcore.errors import LatecomerError
from fedrun import units
from fedrun.app import app_of, load_app
from fedrun.cli.stoppable import stoppable
from fedrun.config import load_config
from fedstudies.old_frame import QUIET, Options, Progress, follow
from fedstudies.runner import Failure, require_measured
from fedstudies.sweep.files import require_room, write_sweep
from fedstudies.sweep.outcome import Outcome, outcome_of
from fedstudies.sweep.points import points_of, read_axis, read_span
from fedstudies.sweep.sweep import Cell, Sweep
from fedstudies.sweep.table import sweep_table
from fedstudies.tables import screen, tell
from fedstudies.trial import Trial
from fedview.results.columns import formats

_ALL_FAILED = "every run of the sweep ended with an error"


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Options):
    """What was asked for on the command line."""

    config: Path
    grids: Sequence[str]
    ranges: Sequence[str]
    random: int | None
    metric: str | None
    fresh: bool
    keep: bool


def show_sweep(options: SweepOptions) -> None:
    """Simulates what is new; prints and writes the whole sweep.

    After Ctrl-C, the finished runs are printed and kept.

    Raises:
        ConfigError: a setting is wrong.
        LatecomerError: all runs ended with an error.
    """
    console = Console(stderr=True)
    sweep, cells, left = _prepared(options)
    for number, why in sweep.refused.items():
        tell(console, f"{sweep.name(number)}: is left out: {why}")
    if len(left) < len(cells):
        known = units.counted(len(cells) - len(left), "run")
        tell(console, f"known from before: {known} of {len(cells):,}")
    try:
        with stoppable():
            _simulate(sweep, left, options, console)
    except KeyboardInterrupt:
        undone = len(cells) - len(sweep.trials) - len(sweep.failures)
        tell(
            console,
            f"stopped: {units.counted(len(sweep.trials), 'run')} of {len(cells):,} "
            f"done and kept; the same command goes on with the other {undone:,}",
        )
    _tell(sweep, options, console)


def compute_sweep(options: SweepOptions) -> Outcome:
    """Simulates what is new without printing; returns the outcome.

    Raises:
        ConfigError: a setting is wrong.
        LatecomerError: all runs ended with an error.
    """
    sweep, _, left = _prepared(options)
    _simulate(sweep, left, options, QUIET)
    outcome = outcome_of(sweep, options.metric)
    if outcome is None:
        first = next(iter(sweep.failures.values()))
        raise LatecomerError(f"{_ALL_FAILED}: {first.sentence}")
    write_sweep(sweep, outcome)
    return outcome


def _prepared(options: SweepOptions) -> tuple[Sweep, list[Cell], list[Cell]]:
    """The sweep, all its runs, and those that are still to be simulated."""
    config = load_config(options.config, options.changes)
    app, place = app_of(options.app, config, options.config)
    require_measured(load_app(app, place), config, app, "points")
    # Without --out the folder is always the same, so that a sweep can continue.
    journal = config.server.journal
    folder = options.folder(journal.with_name(f"{journal.name}-sweep"))
    points = points_of(
        [read_axis(text) for text in options.grids],
        [read_span(text) for text in options.ranges],
        options.random,
        config.seed,
    )
    sweep = Sweep(
        config=options.config,
        changes=tuple(options.changes),
        app=app,
        place=place,
        points=points,
        seeds=range(config.seed, config.seed + options.seeds),
        folder=folder,
        keep=options.keep,
    )
    require_room(sweep)
    cells = sweep.cells()
    return sweep, cells, cells if options.fresh else sweep.recall(cells)


def _simulate(
    sweep: Sweep, left: list[Cell], options: SweepOptions, console: Console
) -> None:
    def progress() -> Generator[Progress]:
        done = 0
        results = sweep.simulate(left, options.jobs, verbose=options.verbose)
        with closing(results):
            for cells, found in results:
                done += len(cells)
                line = _line(sweep, cells[0], found)
                yield Progress(len(cells), line, f"{done}/{len(left)} {line}")

    if left:
        follow(progress(), "simulations", len(left), console)


def _line(sweep: Sweep, cell: Cell, found: Trial | Failure) -> str:
    """The result of a run in a line."""
    name = f"{sweep.name(cell.number)}, seed {cell.seed}"
    if isinstance(found, Failure):
        return f"{name}: {found.sentence}"
    values = (f"{metric} {units.metric(v[-1])}" for metric, v in found.metrics.items())
    return f"{name}: {', '.join(values) or 'nothing measured'}"


def _tell(sweep: Sweep, options: SweepOptions, console: Console) -> None:
    """Prints errors, the table, the names of files, and last the best point."""
    _tell_errors(sweep, console)
    outcome = outcome_of(sweep, options.metric)
    if outcome is None:
        if sweep.failures:
            raise LatecomerError(_ALL_FAILED)
        tell(console, "nothing to tell: no run was done")
        return
    page = write_sweep(sweep, outcome)
    screen().print(sweep_table(outcome))
    tell(console, f"page: {page}")
    tell(console, f"tables: {sweep.folder} ({formats()})")
    for doubt in outcome.doubts:
        click.echo(doubt)
    click.echo(outcome.verdict)


def _tell_errors(sweep: Sweep, console: Console) -> None:
    """Prints the first traceback, and each error once, with its first run."""
    where: dict[str, list[str]] = {}
    for (number, seed), failure in sorted(sweep.failures.items()):
        name = f"{sweep.name(number)}, seed {seed}"
        where.setdefault(failure.sentence, []).append(name)
    traces = [failure.trace for failure in sweep.failures.values() if failure.trace]
    if traces:
        tell(console, traces[0].rstrip())
    for sentence, names in where.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        tell(console, f"failed: {names[0]}{more}: {sentence}")
