"""Pilots of a federation, and the ways to train that they show."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedcore.errors import ConfigError
from fedcore.planning.error_model import fit_error_model, fit_lowest_limit
from fedcore.planning.volatile_workers import ROUND_SLACK, Group, Offer, Protocol, Way
from fedcore.typing import Seconds
from fedrun.config import FederationConfig, parse_config
from fedrun.units import amount
from fedstudies.cache import identity, program, sources
from fedstudies.plan.goal import Target
from fedstudies.plan.pilots import Measured, Pilots, by_way, simulate_pilot
from fedstudies.plan.workers import Workers, write_stays
from fedstudies.runner import Task, simulate_all

EVALUATIONS = 40  # of a pilot
STAY_ROUNDS = 12.0  # of a preemptible worker in a pilot, which is away as long
PILOTS = 5  # of each number of local steps and seed


class Federation(NamedTuple):
    """The federation that is simulated."""

    config: FederationConfig
    app: str
    place: Path
    """The folder where the app is looked for."""
    folder: Path
    """The folder of the plan."""
    jobs: int

    def tasks(
        self, settings: Sequence[tuple[Any, dict[str, Any]]], scratch: Path
    ) -> Iterator[Task[Any]]:
        """The simulations with these keys and configs."""
        for key, each in settings:
            yield Task(key, self.app, self.place, each, scratch)


@dataclass(kw_only=True)
class PilotRuns:
    """The pilots of a federation: few and many workers, and some that leave."""

    federation: Federation
    target: Target
    most: int
    """The largest number of workers."""
    versions: int
    seeds: Sequence[int]
    local_steps: Sequence[int | None]
    found: list[Measured] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of simulated pilots, of all settings of steps and all seeds."""
        return PILOTS * len(self.local_steps) * len(self.seeds)

    def simulate(self) -> Generator[int]:
        """Simulates what is not known yet; yields how many pilots have ended."""
        steady = [
            (None, Workers(protocol, workers, (), buffer, steps, None))
            for steps in self.local_steps
            for protocol, workers, buffer in self._steady()
        ]
        yield from self._run(steady)
        leaving = []
        for steps in self.local_steps:
            slowest = max(
                max(pilot.task_seconds)
                for pilot in self.found
                if pilot.protocol == "synchronous" and pilot.local_steps == steps
            )
            stay = STAY_ROUNDS * slowest
            deadline = ROUND_SLACK * slowest
            workers = Workers(
                "synchronous",
                0,
                (Group(Offer(1.0, stay, stay), self.most),),
                self.most,
                steps,
                deadline,
            )
            leaving.append((10 * self.versions * deadline, workers))
        yield from self._run(leaving)

    def _steady(self) -> list[tuple[Protocol, int, int]]:
        """Returns protocol, workers and updates in a version where nobody leaves."""
        few = max(1, self.most // 4)
        return [
            ("synchronous", few, few),
            ("synchronous", self.most, self.most),
            ("buffered", self.most, few),
            ("buffered", self.most, self.most),
        ]

    def _run(self, wanted: Sequence[tuple[Seconds | None, Workers]]) -> Generator[int]:
        known = Pilots(self.federation.folder)
        code, ours = sources(self.federation.app, self.federation.place), program()
        every = max(1, self.versions // EVALUATIONS)
        traces = self.federation.folder / "pilots"
        traces.mkdir(parents=True, exist_ok=True)
        todo, done = [], 0
        for number, (horizon, workers) in enumerate(wanted):
            for seed in self.seeds:
                trace = None
                if horizon is not None:
                    trace = traces / f"stays-{self.most}-{number}-{seed}.csv"
                    write_stays(trace, workers.stays(seed, horizon))
                settings = workers.settings(
                    self.federation.config,
                    seed=seed,
                    trace=trace,
                    stop={"versions": self.versions, "seconds": horizon},
                    every=every,
                )
                # The stays follow from these settings, and not their file's time.
                plain = {**settings, "simulate": {**settings["simulate"]}}
                plain["simulate"]["availability"] = {"kind": "always"}
                key = identity(parse_config(plain), code, ours)
                key += "" if horizon is None else f"-{horizon:.6g}"
                found = known.get(key)
                if found is None:
                    todo.append((key, settings))
                else:
                    self.found.append(found)
                    done += 1
        if done:
            yield done
        results = simulate_all(
            partial(simulate_pilot, target=self.target),
            lambda scratch: self.federation.tasks(todo, scratch),
            self.federation.folder,
            self.federation.jobs,
        )
        for task, measured in results:
            known.put(task.key, measured)
            self.found.append(measured)
            yield 1


def ways_of(pilots: Sequence[Measured], target: Target) -> tuple[list[Way], list[str]]:
    """Fits an error model to the pilots of each way to train.

    Returns:
        The ways, and a sentence for each one that the pilots cannot tell about.

    Raises:
        ConfigError: they cannot tell about any.
    """
    ways: list[Way] = []
    refused: dict[str, list[str]] = {}  # the names of ways, by what is wrong
    for (protocol, steps), own in by_way(pilots):
        name: str = protocol
        if steps is not None:
            name += f" with {amount(steps, 'local step')}"
        fitted = [pilot.as_pilot(target) for pilot in own]
        try:
            model = fit_error_model(fitted, target.error)
        except ConfigError as error:
            words = str(error).removeprefix("pilots: ")
            refused.setdefault(words, []).append(name)
            continue
        updates = sum(pilot.trial.updates for pilot in own)
        ways.append(
            Way(
                protocol,
                steps,
                model,
                fit_lowest_limit(fitted),
                np.concatenate([pilot.task_seconds for pilot in own]).tolist(),
                sum(pilot.trial.nbytes for pilot in own) / max(1, updates),
            )
        )
    said = [
        f"pilots, {' and '.join(names)}: {words}" for words, names in refused.items()
    ]
    if not ways:
        raise ConfigError(said[0] if said else "pilots: there are none")
    return ways, [f"Left out: {why}." for why in said]
