"""One simulation: the run on disk, the devices, the engine and the evaluator."""

import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from fedcore.clients import ClientSettings, every
from fedcore.coordinator.settings import StopConfig
from fedcore.errors import ConfigError, LatecomerError
from fedcore.model import FlatModel, StackedModel
from fedcore.training import initial_model
from fedcore.typing import Seconds, Vector
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload, require_batches, require_sums
from fedrun.config import FederationConfig, SimulateConfig
from fedrun.files import warm_start
from fedrun.journal import WITHOUT_UPDATES, exists
from fedrun.run import Run, forget_failed, start_run
from fedsim.engines.arrivals import read_clients, read_start
from fedsim.engines.choice import (
    Engine,
    ExactEngine,
    ReplayEngine,
    StackedEngine,
    exact_clients,
    fewest_clients,
)
from fedsim.engines.stacked import make_stacked_clients, make_stacked_model
from fedsim.evaluator import (
    EvaluateModel,
    SimulatedEvaluator,
    evaluate_last,
    own_evaluation,
)
from fedsim.interrupts import Interrupts
from fedsim.population import Population
from fedsim.snapshots import ONE_BY_ONE, STACKED, Saved, reopen
from fedsim.world import World
from fedview.callbacks import Notice
from fedview.results import Results

_log = logging.getLogger(__name__)
_SILO = "simulate.silo"

OnEvent = Callable[[Run, Notice], str | None]
"""A function that is called with each event; if it returns a text, the run ends."""


class _Devices(NamedTuple):
    """The devices of a simulation, drawn from a population or taken from a record."""

    population: Population
    clients: list[Client]
    """The clients as the user's code sees them."""
    began: Seconds
    spare: int
    """The number of clients that may fail before too few are left for the algorithm."""


def simulate(
    config: FederationConfig,
    workload: Workload,
    watching: Sequence[OnEvent],
    *,
    resume: bool,
) -> Results:
    """Simulates a federation in the folder ``server.journal``, to its end.

    Args:
        config: the config of the federation.
        workload: the model and data of its clients and its evaluator.
        watching: functions that are called with each event.
        resume: continue the run in the folder.

    Returns:
        The results of the run.

    Raises:
        ConfigError: the config cannot be simulated, or the folder holds a run.
        WorkloadError: the user's code failed: in what all clients share, or until too
            few clients were left, or in the last evaluations.
    """
    with Interrupts():
        return _simulate(config, workload, watching, resume=resume)


def _simulate(
    config: FederationConfig,
    workload: Workload,
    watching: Sequence[OnEvent],
    *,
    resume: bool,
) -> Results:
    needed = _require_metrics(config.stop, workload)
    devices = _devices(config)
    with user_code("the model"):
        model = workload.flat()
    _warn_of_unused(config, devices.clients)
    if config.simulate.silo is not None:
        require_sums(workload, model.spec, _SILO)
        for client in every(config.algorithm.client):
            require_batches(client, config.simulate.silo.workers, _SILO)
    if model.advice:
        _log.warning("%s", model.advice)
    stacked = make_stacked_model(config, workload, model, devices.population)
    run, saved = _open_run(config, model, stacked, devices.began, resume=resume)
    world = World(run, _as_one(run, watching))
    with world.interrupts:
        try:
            evaluate: EvaluateModel | None = None
            if config.evaluate.clients or config.algorithm.clients_evaluate:
                evaluate = own_evaluation(workload, model, config.algorithm.client)
            engine = _engine(world, devices, workload, model, stacked, saved, evaluate)
            evaluator = _evaluator(world, workload, model, needed)

            def is_over() -> bool:
                evaluated = evaluator is None or evaluator.is_done
                ended = world.ended is not None and evaluated
                return ended or len(world.failures) > devices.spare

            engine.execute(is_over)
            if evaluate is not None and world.ended is not None:
                evaluate_last(world, engine.clients(), evaluate)
        except LatecomerError:
            raise
        except BaseException as error:  # Ctrl-C, or an exception of a callback
            folder = str(config.server.journal)
            error.add_note(f"the run up to here: Results({folder!r})")
            raise
        finally:
            world.close()
    if len(world.failures) > devices.spare and world.ended is None:
        raise world.failures[0]
    if evaluator is not None and evaluator.failure is not None:
        raise evaluator.failure  # after the run, whose last versions have no metrics
    return Results(config.server.journal)


def _devices(config: FederationConfig) -> _Devices:
    """Draws the devices, or reads those of a recorded run.

    Raises:
        ConfigError: there are fewer devices than the algorithm needs.
    """
    arrivals = config.simulate.arrivals
    if arrivals is None:
        population = Population(config.simulate, config.seed)
        clients = [population.client(who) for who in range(population.count)]
        began, fewest = 0.0, fewest_clients(config.algorithm)
    else:
        clients = read_clients(config.simulate, arrivals)
        population = Population(SimulateConfig(clients=len(clients)), config.seed)
        # One client may have delivered twice to fill its rounds.
        began, fewest = read_start(arrivals), config.algorithm.min_clients
    spare = len(clients) - fewest
    if spare < 0:
        raise ConfigError(
            f"{len(clients)} clients are simulated, the algorithm needs {fewest}"
        )
    return _Devices(population, clients, began, spare)


def _warn_of_unused(config: FederationConfig, clients: Sequence[Client]) -> None:
    """Logs overrides that match no simulated client, and limits nobody measures."""
    if config.algorithm.uses_energy and config.simulate.devices.watts is None:
        _log.warning(
            "the run limits the energy of tasks, and simulated devices do not measure "
            "any: set simulate.devices.watts"
        )
    settings = ClientSettings(config.algorithm.client)
    names = [client.name for client in clients]
    for entry in settings.find_unused(names):
        _log.warning(
            "algorithm.client.overrides: no simulated client has the settings of %s; "
            "their names are %s to %s",
            ", ".join(entry.clients),
            names[0],
            names[-1],
        )


def _open_run(
    config: FederationConfig,
    model: FlatModel,
    stacked: StackedModel | None,
    began: Seconds,
    *,
    resume: bool,
) -> tuple[Run, Saved | None]:
    """Starts a run on disk, or opens the run to resume with its last snapshot."""
    if resume:
        if config.simulate.arrivals is not None:
            raise ConfigError(
                "resume: a recorded order of arrival is replayed in one go "
                "(simulate.arrivals); start the run anew"
            )
        return reopen(config, model.spec, ONE_BY_ONE if stacked is None else STACKED)
    _make_room(config.server.journal)
    run = start_run(
        config,
        model.spec,
        _version_0(config, model),
        began,
        rest=model.rest(),
        durable=False,
        epoch="0" * 16,
    )
    if stacked is not None:
        run.journal.store.note(WITHOUT_UPDATES, "yes")
    return run, None


def _engine(
    world: World,
    devices: _Devices,
    workload: Workload,
    model: FlatModel,
    stacked: StackedModel | None,
    saved: Saved | None,
    evaluate: EvaluateModel | None,
) -> Engine:
    population = devices.population
    if stacked is not None:
        together = make_stacked_clients(world, population, workload, stacked, evaluate)
        return StackedEngine(world, population, together, saved)
    clients = exact_clients(
        world, population, devices.clients, workload, model, evaluate
    )
    if saved is None:
        clients.enrol()
    arrivals = world.run.config.simulate.arrivals
    if arrivals is not None:
        return ReplayEngine(world, clients, arrivals)
    return ExactEngine(world, population, clients, saved)


def _evaluator(
    world: World, workload: Workload, model: FlatModel, needed: Collection[str]
) -> SimulatedEvaluator | None:
    """Returns the evaluator, if the workload has test data; otherwise None."""
    if workload.test_data is None:
        if not world.run.config.evaluate.clients:
            _log.warning(
                "nothing is evaluated: the workload has no test_data=, and no "
                "clients evaluate (evaluate.clients)"
            )
        return None
    with user_code("test_data"):
        test_data = workload.test_data()
    return SimulatedEvaluator(world, model, test_data, needed)


def _as_one(
    run: Run, watching: Sequence[OnEvent]
) -> Callable[[Notice], str | None] | None:
    """Returns a function that calls all of them; it returns the first reason."""
    if not watching:
        return None

    def tell(event: Notice) -> str | None:
        reasons = [watch(run, event) for watch in watching]
        return next((reason for reason in reasons if isinstance(reason, str)), None)

    return tell


def _make_room(folder: Path) -> None:
    """Removes a simulation that failed before its first version.

    Raises:
        ConfigError: the folder holds any other run.
    """
    if exists(folder) and not forget_failed(folder):
        raise ConfigError(
            f"{folder}: holds a run already; name another folder, or go on with it "
            "(--resume)"
        )


def _version_0(config: FederationConfig, model: FlatModel) -> Vector:
    """Returns version 0 from the file of ``model:``, or draws it if there is none."""
    is_there = os.path.lexists(config.model)  # although it may not be needed
    if "model" not in config.model_fields_set or not is_there:
        return initial_model(model, config.seed)
    _log.info("the run begins with %s", config.model)
    return warm_start(model, config.model)


def _require_metrics(stop: StopConfig, workload: Workload) -> Collection[str]:
    """Returns the metrics without which the simulation would never end.

    Raises:
        ConfigError: nothing ends the simulation.
    """
    if stop.versions or stop.updates or stop.seconds:
        return ()
    if not stop.target:
        raise ConfigError(
            "stop: a simulation needs an end: versions, updates, seconds or target"
        )
    if workload.test_data is None:
        raise ConfigError(
            "stop.target: nothing evaluates it, since the workload has no test_data; "
            "say also versions, updates or seconds"
        )
    return stop.target
