"""What ``fedsim staleness`` does: from a command line to a table and a page."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from fedcore.errors import ConfigError
from fedrun.app import app_of, load_app
from fedrun.config import load_config
from fedsim.api import free_folder
from fedstudies.files import write_files
from fedstudies.old_frame import Options, Progress, follow
from fedstudies.staleness.matrix import Matrix
from fedstudies.staleness.page import staleness_page
from fedstudies.staleness.problem import Goal, problem_of
from fedstudies.staleness.slowdown import Row
from fedstudies.staleness.study import OPTIMIZERS, Optimizer
from fedstudies.tables import screen, tell
from fedstudies.typed import split, whole_numbers


@dataclass(frozen=True, kw_only=True)
class StalenessOptions(Options):
    """What was asked for on the command line."""

    config: Path
    also: Sequence[str]
    """Further apps, such as deeper networks."""
    optimizers: Sequence[str]
    staleness: str
    metric: str | None
    target: float | None
    workers: int
    batch: int
    most: int
    every: int
    coherence: bool
    jobs: int = 1  # the copies of a model are trained together, in this process


def show_staleness(options: StalenessOptions) -> None:
    """Trains with all delays, writes page and numbers, and says who suffers most.

    After Ctrl-C, what was trained until then is printed and written.
    """
    console = Console(stderr=True)
    config = load_config(options.config, options.changes)
    goal = Goal(config, options.metric, options.target)
    late = delays(options.staleness)
    optimizers = dict(map(optimizer_of, options.optimizers or OPTIMIZERS))
    app, place = app_of(options.app, config, options.config)
    names = list(dict.fromkeys([app, *options.also]))
    problems = {
        name: problem_of(config, load_app(name, place), goal, name) for name in names
    }
    seeds = range(config.seed, config.seed + options.seeds)
    out = options.folder(free_folder(config, "staleness"))
    metric = problems[app][1]
    matrix = Matrix(app, metric, goal.value, late, options.workers, options.batch)

    def trained() -> Generator[Progress]:
        for name, (problem, _) in problems.items():
            for given, optimizer in optimizers.items():
                row = Row(f"{name} {given}" if len(names) > 1 else given, options.most)
                matrix.rows.append(row)
                for s, seed in row.fill(
                    problem,
                    optimizer,
                    late,
                    seeds,
                    workers=options.workers,
                    batch=options.batch,
                    every=options.every,
                    with_coherence=options.coherence,
                ):
                    took = row.courses[s, seed].iterations
                    words = f"{took} iterations" if took else "did not get there"
                    yield Progress(1, row.name, f"{row.name}, s = {s}: {words}")

    total = len(names) * len(optimizers) * len(late) * len(seeds)
    try:
        follow(trained(), "runs", total, console)
    except KeyboardInterrupt:
        console.print("stopped")
    matrix.drop_unfinished()
    if not matrix.rows:
        console.print("nothing to tell: no optimiser was tried without staleness")
        return
    _tell(matrix, out)


def _tell(matrix: Matrix, out: Path) -> None:
    """Prints the table, the names of files, and last the result."""
    files = write_files(out, "staleness", staleness_page(matrix), matrix.as_json())
    shown = screen()
    shown.print(matrix.cells().on_screen(title=matrix.heading))
    for line in files.lines:
        tell(shown, line)
    for doubt in matrix.doubts:
        click.echo(doubt)
    click.echo(matrix.verdict)


def delays(text: str) -> list[int]:
    """The largest delays that ``--staleness`` names, with 0, in order.

    Raises:
        ConfigError: one of them is no whole number from 0 on.
    """
    expected = "iterations from 0 on, such as 0,4,16"
    given = whole_numbers("--staleness", text, expected, least=0)
    return sorted({0, *given})


def optimizer_of(text: str) -> tuple[str, Optimizer]:
    """An optimiser as ``--optimizer`` names it, such as ``momentum:lr=0.01``.

    Raises:
        ConfigError: there is no such optimiser, or it has no such setting.
    """
    name, _, given = text.partition(":")
    if name not in OPTIMIZERS:
        raise ConfigError(
            f"--optimizer {text}: there is no optimizer {name!r}; expected "
            f"{', '.join(OPTIMIZERS)}"
        )
    optimizer = OPTIMIZERS[name]
    for part in split(given) if given else ():
        field, _, value = part.partition("=")
        rate = _number(value)
        if field != "lr" or not 0 < rate < math.inf:
            raise ConfigError(
                f"--optimizer {text}: expected a learning rate above 0, such as "
                f"{name}:lr={optimizer.lr:g}"
            )
        optimizer = optimizer._replace(lr=rate)
    return text, optimizer


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
