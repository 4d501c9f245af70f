"""``fedsim sweep``: many settings of a federation, compared."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import SkipValidation
from rich.console import Console

from fedcore.config import Count
from fedcore.errors import ConfigError, LatecomerError
from fedrun import units
from fedstudies.cache import INDEX
from fedstudies.federated import CONFIG, Simulating
from fedstudies.frame import (
    Option,
    Phase,
    Progress,
    Say,
    Steps,
    Stopped,
    stopping,
)
from fedstudies.functions import function_of
from fedstudies.runner import Failure, require_measured, require_metric
from fedstudies.runs import Cell
from fedstudies.sweep.outcome import SweepOutcome, list_failures, outcome_of
from fedstudies.sweep.points import (
    axes_of,
    points_of,
    read_grid,
    read_ranges,
    spans_of,
)
from fedstudies.sweep.sweep import Sweep as Runs
from fedstudies.trial import Trial, metric_of

_GRID = "a mapping by field, such as {'algorithm.buffer': [4, 8]}"
_RANGES = "a mapping by field, such as {'algorithm.client.lr': ('log', 0.01, 1)}"


class Sweep(Simulating[SweepOutcome]):
    """Try many settings of a federation.

    Finished runs are kept in the folder of the sweep: the same command, or one with
    more values or seeds, simulates only what is new.

    Returns:
        The points, the best one first: ``table()``, ``runs()`` and ``curves()`` are
        dicts of columns, ``rows[0]`` is the best point, and ``verdict`` names it.

    Raises:
        ConfigError: a setting is wrong.
        LatecomerError: every run ended with an error.
    """

    config: Annotated[str | Path, CONFIG]
    """The YAML file of the federation."""
    grid: Annotated[
        Mapping[str, SkipValidation[Sequence[Any]]] | None,
        Option(
            "FIELD=VALUE,VALUE",
            read_all=read_grid,
            wanted=_GRID,
        ),
    ] = None
    """Values to try, such as algorithm.buffer=4,8. With several, every combination is
    tried."""
    _: KW_ONLY
    ranges: Annotated[
        Mapping[str, SkipValidation[Sequence[str | float]]] | None,
        Option(
            "FIELD=SCALE:LOW:HIGH",
            read_all=read_ranges,
            wanted=_RANGES,
        ),
    ] = None
    """An interval from which --random draws; the scale is linear, log or int, as in
    algorithm.client.lr=log:0.01:1."""
    random: Annotated[Count | None, Option("N")] = None
    """Draw this many points from the intervals of --range and the values of --grid."""
    seeds: Count = 1
    """How often each point is simulated."""
    metric: str | None = None
    """The metric to compare by. Without it, accuracy, or the first one measured."""
    out: Annotated[str | Path | None, Option(also="-o")] = None
    """The folder of the sweep. Without it, one beside server.journal, always the
    same."""
    fresh: bool = False
    """Simulate again what is done already."""
    keep: bool = False
    """Keep the folders of the runs."""

    examples: ClassVar = (
        "federation.yaml --grid algorithm.buffer=4,8 --seeds 3",
        "federation.yaml --random 8 \\\n    --range algorithm.client.lr=log:0.01:1",
    )
    function: ClassVar = "run_sweep"

    def usual_folder(self) -> Path:
        """Returns the folder beside ``server.journal``, so that a sweep can go on."""
        journal = self.federation().config.server.journal
        return journal.with_name(f"{journal.name}-sweep")

    def perform(self, console: Console) -> Steps[SweepOutcome]:
        """Simulates what is new; after Ctrl-C, the finished runs are kept."""
        found = self.federation()
        config, app, place = found
        workload = found.load()
        require_measured(workload, config, app, "points")
        require_metric(workload, config, self.metric)
        axes, spans = axes_of(self.grid or {}), spans_of(self.ranges or {})
        sweep = Runs(
            load=lambda point: self.federation(point).config,
            app=app,
            place=place,
            points=points_of(axes, spans, self.random, config.seed),
            ranges=[span.field for span in spans],
            seeds=range(config.seed, config.seed + self.seeds),
            folder=self.folder,
            keep=self.keep,
        )
        require_room(sweep)
        cells = sweep.cells()
        left = cells if self.fresh else sweep.recall(cells)
        for number, why in sweep.refused.items():
            yield Say(f"{sweep.name(number)}: is left out: {why}")
        if len(left) < len(cells):
            known = units.amount(len(cells) - len(left), "run")
            yield Say(f"known from before: {known} of {len(cells):,}")
        if left:
            yield Phase("simulations", len(left))
            with stopping(lambda: self._stop(sweep, len(cells))):
                yield from self._simulate(sweep, left)
        outcome = outcome_of(sweep, self.metric)
        if outcome is None:
            for line in list_failures(sweep.failures_by_name):
                yield Say(line)
            first = next(iter(sweep.failures.values()))
            raise LatecomerError(
                f"every run of the sweep ended with an error: {first.sentence}"
            )
        return outcome

    def _simulate(self, sweep: Runs, left: list[Cell]) -> Generator[Progress]:
        done = 0
        with closing(sweep.attempt(left, self.jobs)) as results:
            for cells, found in results:
                done += len(cells)
                if isinstance(found, Trial) and found.metrics:
                    metric_of([found], self.metric)
                line = _line(sweep, cells[0], found)
                yield Progress(len(cells), line, f"{done}/{len(left)} {line}")

    def _stop(self, sweep: Runs, asked: int) -> Stopped:
        done = units.amount(len(sweep.trials), "run")
        undone = asked - len(sweep.trials) - len(sweep.failures)
        kept = (
            f"{done} of {asked:,} done and kept; the same command goes on with the "
            f"other {undone:,}"
        )
        found = outcome_of(sweep, self.metric)
        return Stopped(found or "no run was done", kept, again=())


run_sweep = function_of(Sweep)


def _line(sweep: Runs, cell: Cell, found: Trial | Failure) -> str:
    """The result of a run in a line."""
    name = f"{sweep.name(cell.number)}, seed {cell.seed}"
    if isinstance(found, Failure):
        return f"{name}: {found.sentence}"
    values = (f"{metric} {units.metric(v[-1])}" for metric, v in found.metrics.items())
    return f"{name}: {', '.join(values) or 'nothing measured'}"


def require_room(sweep: Runs) -> None:
    """Checks that the folder holds no sweep of fields that this one leaves alone.

    Raises:
        ConfigError: it does, and its page and tables would be overwritten.
    """
    path = sweep.folder / INDEX
    try:
        points = json.loads(path.read_text(encoding="utf-8"))["points"]
        held = list(dict.fromkeys(field for point in points for field in point["set"]))
    except (OSError, ValueError, KeyError, TypeError):
        return  # there is none that could be read
    if not set(held) <= set(sweep.fields):
        ours = f"this is one of {', '.join(sweep.fields)}"
        raise ConfigError(
            f"{sweep.folder}: holds a sweep of {', '.join(held)}, and "
            f"{ours if sweep.fields else 'there is nothing to sweep (--grid, --range)'}"
            "; give another folder (--out)"
        )
