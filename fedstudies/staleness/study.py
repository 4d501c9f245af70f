"""``fedsim staleness``: how many times longer training takes with late updates."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, FiniteFloat
from rich.console import Console

from fedcore.config import Count
from fedcore.errors import ConfigError
from fedrun.app import load_app
from fedstudies.federated import CONFIG, Federated
from fedstudies.frame import Option, Phase, Progress, Steps, Stopped, stopping
from fedstudies.functions import function_of
from fedstudies.staleness.matrix import Matrix
from fedstudies.staleness.problem import Goal, problem_of
from fedstudies.staleness.slowdown import Row
from fedstudies.staleness.training import OPTIMIZERS, Optimizer
from fedstudies.typed import numbers, split


class Staleness(Federated[Matrix]):
    """Show how late updates slow optimizers and models down.

    Workers train the app of a federation on the samples of all simulated clients,
    without a server: every update reaches every worker's copy of the model after a
    random delay.

    Returns:
        The ``rows`` of the matrix, one for each optimizer and app, with their
        ``slowdowns()``; ``verdict`` says who suffers most.

    Raises:
        ConfigError: a setting is wrong, or the app cannot be trained in this way.
        UserCodeError: the user's code raised.
    """

    config: Annotated[str | Path, CONFIG]
    """The YAML file of the federation."""
    _: KW_ONLY
    also: Annotated[Sequence[str], Option("APP")] = ()
    """Another app to compare with, such as one with a deeper network."""
    optimizers: Annotated[Sequence[str], Option("NAME")] = ()
    """An optimizer to try, such as momentum:lr=0.01. Without it: sgd, momentum, adam,
    rms_prop and adagrad."""
    staleness: Annotated[
        Sequence[Annotated[int, Field(ge=0)]],
        numbers("iterations from 0 on", "0,4,16", least=0),
    ] = (0, 4, 8, 16, 32)
    """The largest delays to try, in iterations."""
    metric: str | None = None
    """The metric to compare by. Without it, accuracy, or the first one measured."""
    target: FiniteFloat | None = None
    """Count iterations up to this value of the metric. Without it, up to
    stop.target."""
    workers: Count = 8
    """How many copies of the model there are."""
    batch: Count = 32
    """Samples that a worker draws for a step."""
    most: Count = 2000
    """Iterations at which a run is given up."""
    every: Count = 1
    """Evaluate after every so many iterations."""
    seeds: Count = 1
    """How often each cell is trained."""
    coherence: bool = False
    """Also draw the gradient coherence, for which a gradient of all samples is computed
    in every iteration."""

    examples: ClassVar = (
        "federation.yaml --target 0.9 --seeds 3 --coherence",
        "federation.yaml --optimizer sgd:lr=0.1 \\\n"
        "    --optimizer momentum:lr=0.01 --also deeper.py:workload",
    )

    def perform(self, console: Console) -> Steps[Matrix]:
        """Trains with all delays; after Ctrl-C, what was trained until then counts."""
        config, app, place = self.federation()
        goal = Goal(config, self.metric, self.target)
        late = sorted({0, *self.staleness})
        optimizers = dict(map(optimizer_of, self.optimizers or OPTIMIZERS))
        names = list(dict.fromkeys([app, *self.also]))
        problems = {
            name: problem_of(config, load_app(name, place), goal, name)
            for name in names
        }
        seeds = range(config.seed, config.seed + self.seeds)
        metric = problems[app][1]
        matrix = Matrix(app, metric, goal.value, late, self.workers, self.batch)

        def train_all() -> Iterator[Progress]:
            for name, (problem, _) in problems.items():
                for given, optimizer in optimizers.items():
                    row = Row(f"{name} {given}" if len(names) > 1 else given, self.most)
                    matrix.rows.append(row)
                    for s, seed in row.fill(
                        problem,
                        optimizer,
                        late,
                        seeds,
                        workers=self.workers,
                        batch=self.batch,
                        every=self.every,
                        with_coherence=self.coherence,
                    ):
                        took = row.courses[s, seed].iterations
                        words = f"{took} iterations" if took else "did not get there"
                        yield Progress(1, row.name, f"{row.name}, s = {s}: {words}")

        yield Phase("runs", len(names) * len(optimizers) * len(late) * len(seeds))
        with stopping(lambda: _stop(matrix)):
            yield from train_all()
        return matrix


staleness = function_of(Staleness)


def _stop(matrix: Matrix) -> Stopped:
    matrix.drop_unfinished()
    if matrix.rows:
        return Stopped(matrix)
    return Stopped("no optimizer was tried without staleness")


def optimizer_of(text: str) -> tuple[str, Optimizer]:
    """Returns an optimiser as ``--optimizer`` names it, such as ``momentum:lr=0.01``.

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
