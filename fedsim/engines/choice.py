"""The three engines that move simulated clients: one by one, in stacks, as recorded."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from fedcore.algorithm import AlgorithmConfig
from fedcore.errors import ConfigError
from fedcore.model import FlatModel
from fedcore.training import Trainer
from fedcore.typing import State
from fedcore.workload import Client, Workload
from fedrun.journal.disk import making_sense_of
from fedsim.engines.arrivals import replay_arrivals
from fedsim.engines.exact import ExactClients
from fedsim.engines.fates import order_of_coming
from fedsim.engines.stacked import StackedClients
from fedsim.evaluator import EvaluateModel
from fedsim.population import Population
from fedsim.snapshots import ONE_BY_ONE, Saved, Snapshots
from fedsim.world import World


class Engine(Protocol):
    """An engine, which moves the clients of a simulation until it is over."""

    def execute(self, is_over: Callable[[], bool]) -> None:
        """Simulates until ``is_over`` returns true, or nothing is left to do."""

    def clients(self) -> Iterable[tuple[Client, State]]:
        """Returns each client as the user's code sees it, with its kept state."""


class ExactEngine:
    """The engine in which each client runs the whole protocol by itself."""

    def __init__(
        self,
        world: World,
        population: Population,
        clients: ExactClients,
        saved: Saved | None,
    ) -> None:
        """Starts from ``saved``, the snapshot of an interrupted run, if it is given."""
        self._world, self._population = world, population
        self._clients, self._saved = clients, saved
        self._snapshots = Snapshots(world.run, ONE_BY_ONE, clients.dump)

    def execute(self, is_over: Callable[[], bool]) -> None:
        """Begins the run, or continues it, and handles events in order of time."""
        give_up_when_deserted(self._world, self._population)
        with self._world.interrupts.held():
            if self._saved is None:
                algorithm = self._world.run.config.algorithm
                for who in order_of_coming(algorithm, self._population):
                    self._clients.fates.begin(who)
            else:
                self._clients.load(self._saved)
            self._world.execute(is_over, self._is_interrupted)

    def _is_interrupted(self) -> bool:
        """Takes a snapshot if one is due; returns whether the run is interrupted."""
        came = self._world.interrupts.came
        self._snapshots.look()
        if not (came or self._snapshots.due) or not self._clients.can_be_saved:
            return False
        self._snapshots.take()
        return came

    def clients(self) -> Iterable[tuple[Client, State]]:
        """Yields each client as the user's code sees it, with its kept state."""
        return self._clients.with_kept()


class ReplayEngine:
    """The engine in which clients deliver in the order of a recorded run."""

    def __init__(self, world: World, clients: ExactClients, recorded: Path) -> None:
        self._world, self._clients, self._recorded = world, clients, recorded

    def execute(self, is_over: Callable[[], bool]) -> None:
        """Replays the whole record; ``is_over`` is not asked."""
        self._world.run.coordinator.rounds.completes_cohorts = False
        replay_arrivals(self._world, self._clients, self._recorded)

    def clients(self) -> Iterable[tuple[Client, State]]:
        """Returns each client as the user's code sees it, with its kept state."""
        return self._clients.with_kept()


class StackedEngine:
    """The engine that trains hundreds of clients at a time."""

    def __init__(
        self,
        world: World,
        population: Population,
        clients: StackedClients,
        saved: Saved | None,
    ) -> None:
        """Starts from ``saved``, the snapshot of an interrupted run, if it is given."""
        self._world, self._population = world, population
        self._clients, self._saved = clients, saved

    def execute(self, is_over: Callable[[], bool]) -> None:
        """Begins the run, or continues it, and simulates to its end."""
        give_up_when_deserted(self._world, self._population)
        if self._saved is None:
            self._clients.begin()
        else:
            folder = self._world.run.journal.folder
            with making_sense_of(f"{folder}: its newest snapshot"):
                self._clients.load(self._saved)
        self._clients.execute(is_over)

    def clients(self) -> Iterable[tuple[Client, State]]:
        """Returns each client as the user's code sees it, with its kept state."""
        return self._clients.clients()


def exact_clients(
    world: World,
    population: Population,
    clients: Sequence[Client],
    workload: Workload,
    model: FlatModel,
    evaluate: EvaluateModel | None,
) -> ExactClients:
    """Enrols clients with the whole protocol, one for each device."""
    config, algorithm = world.run.config, world.run.coordinator.algorithm
    trainer = Trainer(
        workload,
        algorithm,
        model=model,
        share_labels=config.share_labels and config.algorithm.uses_labels,
    )
    return ExactClients(world, population, clients, workload, trainer, evaluate)


def give_up_when_deserted(world: World, population: Population) -> None:
    """Ends the run with an error once all clients are gone for good.

    Without clients the run cannot reach its stop any more.

    Raises:
        ConfigError: later, from the clock, if the run has not ended by then.
    """
    config, deserted = world.run.config, population.deserted
    if math.isinf(deserted) or config.stop.seconds:
        return

    def give_up() -> None:
        if world.ended is None:
            version = world.run.coordinator.state.version
            raise ConfigError(
                f"simulate: after {deserted:g} seconds no client is ever there again, "
                f"and the run, at version {version}, has not reached its stop; give "
                "availability.repeat: true, or stop earlier"
            )

    patience = config.timeouts.lost + (config.algorithm.deadline or 0.0)
    world.clock.at(deserted + patience, give_up)


def fewest_clients(config: AlgorithmConfig) -> int:
    """Returns how many clients the algorithm needs to make versions."""
    return max(config.min_clients, config.minimum if config.synchronous else 1)
