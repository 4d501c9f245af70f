"""One simulation: its measurements over time, and the lateness of its updates."""

import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

import latecomer
from benchmarks.asynchrony.contenders import Contender, Rates
from benchmarks.asynchrony.problem import Problem
from fedcore.coordinator.events import Evaluated
from fedcore.protocol import Verdict
from fedcore.typing import JSON, Seconds
from fedrun.config import FederationConfig, parse_config
from fedrun.run import Run
from fedview.callbacks import Notice
from fedview.results import Results

HELD = 3  # evaluations whose mean must be at a target; an odd number
EVERY = 1.2  # updates between evaluations, for each client in flight: two time units
EARLY = 12  # evaluations after which a model that has learnt nothing is given up
NOTHING = 0.3  # accuracy

SPEEDS: dict[str, tuple[JSON, float]] = {  # with the median of each
    "log_normal": ({"kind": "log_normal", "sigma": 1.0}, 1.0),
    "pareto": ({"kind": "pareto", "shape": 1.5}, 2 ** (1 / 1.5)),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all contenders meet."""

    problem: Problem
    folder: str  # of the data
    speed: str
    flight: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run. Time is in units of a median device's task."""

    seconds: Sequence[Seconds]
    accuracy: Sequence[float]
    versions: int
    updates: int  # accepted
    rejected: int
    staleness: float  # mean
    largest: int
    wall: float  # real seconds
    payload: int | None = None  # bytes, up and down; None: not counted

    @property
    def held(self) -> list[float]:
        """The mean of each evaluation and its neighbours; the ends are left out.

        One lucky evaluation of a model that jumps about is no accuracy.
        """
        known = range(len(self.accuracy) - HELD + 1)
        return [_mean(self.accuracy[at : at + HELD]) for at in known]

    def reaches(self, target: float) -> Seconds:
        """When it was first known that the mean of some evaluations is there.

        That is at the last of them; infinite if it was never there.
        """
        for when, value in zip(self.seconds[HELD - 1 :], self.held, strict=False):
            if value >= target:
                return when
        return math.inf

    @property
    def middle(self) -> Sequence[Seconds]:
        """The moments that the means belong to."""
        return self.seconds[HELD // 2 : len(self.seconds) - HELD // 2]

    def touches(self, target: float) -> Seconds:
        """When a single evaluation was first there."""
        for when, value in zip(self.seconds, self.accuracy, strict=True):
            if value >= target:
                return when
        return math.inf

    @property
    def best(self) -> float:
        """The highest mean of some evaluations."""
        return max(self.held, default=0.0)

    def to_json(self) -> JSON:
        """All of it."""
        return {
            **asdict(self),
            "seconds": [round(when, 3) for when in self.seconds],
            "accuracy": [round(value, 4) for value in self.accuracy],
            "staleness": round(self.staleness, 2),
            "wall": round(self.wall, 1),
        }

    @classmethod
    def from_json(cls, told: JSON) -> "Outcome":
        """As it was saved."""
        return cls(**told)


class _Enough(Exception):  # noqa: N818 -- nothing went wrong
    """The run has shown what it was to show."""


def _mean(values: Sequence[float]) -> float:
    """The mean, without the last digits, which are lost when values are saved."""
    return round(fmean(values), 6)


class _Watch:
    """Notes what is measured, and ends a run that need not go on."""

    def __init__(self, target: float, *, gives_up: bool) -> None:
        self.seconds: list[Seconds] = []
        self.accuracy: list[float] = []
        self._target, self._gives_up = target, gives_up

    def __call__(self, run: Run, event: Notice) -> None:
        if not isinstance(event, Evaluated):
            return
        self.seconds.append(event.at)
        self.accuracy.append(event.values["accuracy"])
        if len(self.accuracy) < HELD:
            return
        held = _mean(self.accuracy[-HELD:])
        hopeless = len(self.accuracy) > EARLY and held < NOTHING
        if held >= self._target or (self._gives_up and hopeless):
            raise _Enough


def federation(
    setting: Setting,
    contender: Contender,
    rates: Rates,
    *,
    seed: int,
    limit: Seconds,
    folder: Path,
) -> FederationConfig:
    """The config of a run; devices differ in speed alone."""
    problem, flight = setting.problem, setting.flight
    speed, median = SPEEDS[setting.speed]
    every = max(1, round(EVERY * flight / contender.buffer(flight)))
    return parse_config(
        {
            "seed": seed,
            "server": {"journal": str(folder / "run")},
            "algorithm": contender.algorithm(flight, rates, problem.batch),
            "evaluate": {"every_versions": every},
            "stop": {"seconds": limit},
            "timeouts": {"lease": 1e9},
            "simulate": {
                "clients": problem.clients,
                "step_seconds": 1 / (problem.steps * median),
                "speed": speed,
                "link": {"latency": 0.001, "up_mbit": 1e5, "down_mbit": 1e5},
            },
        }
    )


def simulate(
    setting: Setting,
    contender: Contender,
    rates: Rates,
    *,
    seed: int,
    limit: Seconds,
    target: float,
    tuning: bool = False,
) -> Outcome:
    """Runs until the target is held, or the time is over.

    Args:
        setting: the problem and its devices.
        contender: who learns.
        rates: how fast.
        seed: of data, devices and first weights.
        limit: of virtual time.
        target: an accuracy; above 1, it is never reached.
        tuning: whether rates are looked for: held-out training images are evaluated
            instead of the test set, and a model that has learnt nothing for long ends
            the run.
    """
    watch, began = _Watch(target, gives_up=tuning), time.perf_counter()
    workload = setting.problem.workload(setting.folder, seed, tuning=tuning)
    with tempfile.TemporaryDirectory() as folder:
        config = federation(
            setting, contender, rates, seed=seed, limit=limit, folder=Path(folder)
        )
        with suppress(_Enough):
            latecomer.run(
                config, workload, folder=config.server.journal, on_event=watch
            )
        return _outcome(Results(config.server.journal), watch, began)


def _outcome(results: Results, watch: _Watch, began: float) -> Outcome:
    updates = results.updates
    accepted = np.array(updates["verdict"]) == Verdict.ACCEPTED.value
    staleness = np.array(updates["staleness"])[accepted]
    trained = set(updates["client"])
    down = sum(
        nbytes
        for client, nbytes in zip(
            results.tasks["client"], results.tasks["bytes"], strict=True
        )
        if client in trained
    )
    return Outcome(
        seconds=watch.seconds,
        accuracy=watch.accuracy,
        versions=len(results.versions["seconds"]),
        updates=len(staleness),
        rejected=int((~accepted).sum()),
        staleness=float(staleness.mean()),
        largest=int(staleness.max()),
        wall=time.perf_counter() - began,
        payload=int(sum(updates["bytes"]) + down),
    )
