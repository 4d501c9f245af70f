"""``fedsim.run``: a simulation from Python and notebooks."""

import logging
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator import Coordinator, CrowdCoordinator
from fedcore.coordinator.events import Event
from fedcore.coordinator.settings import StopConfig
from fedcore.errors import ConfigError
from fedcore.training import Trainer, initial_model
from fedcore.typing import Vector
from fedcore.workload import FlatModel, StackedModel, Workload, user_code
from fedrun.config import FederationConfig, parse_config
from fedrun.files import load_model
from fedrun.journal import WITHOUT_UPDATES
from fedrun.results import Results
from fedrun.run import Run, start_run
from fedsim.arrivals import recorded_devices, recorded_start, replay_arrivals
from fedsim.client import SimulatedClient
from fedsim.evaluator import SimulatedEvaluator
from fedsim.population import Device, Population, devices_of
from fedsim.stacked import Crowd, Saved, make_crowd, reopen, stacked_model
from fedsim.world import World

_log = logging.getLogger(__name__)


def run(
    config: FederationConfig | Mapping[str, Any],
    workload: Workload,
    *,
    folder: Path | None = None,
    on_event: Callable[[Run, Event], None] | None = None,
    resume: bool = False,
) -> Results:
    """Simulates a federation and returns what came of it.

    Args:
        config: as in the YAML, or a mapping of the same shape.
        workload: what clients and evaluator use in a deployment.
        folder: of the run; the next free one beside ``server.journal`` if left out.
        on_event: called after each event, for progress; where clients are computed in
            stacks, after each version and each evaluation.
        resume: go on with the run in ``folder`` that was interrupted or killed, from
            its last snapshot.

    Raises:
        ConfigError: the config has mistakes, or says nothing of when to stop.
        ModelError: the file of ``model:`` is there, and holds no model.
        SpecMismatchError: it holds another one than the workload's.
        UserCodeError: the user's code raised again and again, until too few clients
            were left to go on; or one client alone does not fit into memory.
    """
    if not isinstance(config, FederationConfig):
        config = parse_config(config)
    server = config.server.model_copy(update={"journal": folder or free_folder(config)})
    config = config.model_copy(update={"server": server})
    needed = _must_measure(config.stop, workload)
    arrivals = config.simulate.arrivals
    population, devices = None, []
    if arrivals is None:
        population = Population(config.simulate, config.seed)
        began, count, least = 0.0, population.count, _least(config.algorithm)
    else:
        # Its rounds were filled, perhaps by a client that delivered twice.
        devices = recorded_devices(config.simulate, arrivals, config.seed)
        began, count = recorded_start(arrivals), len(devices)
        least = config.algorithm.min_clients
    spare = count - least
    if spare < 0:
        raise ConfigError(f"{count} clients are simulated, the algorithm needs {least}")
    with user_code("the model"):
        model = workload.flat()
    stacked = stacked_model(config, workload, model, population)
    saved: Saved | None = None
    if resume:
        _refuse_to_resume(stacked, folder)
        started, saved = reopen(config, model.spec)
    else:
        started = start_run(
            config,
            model.spec,
            _version_0(config, model),
            began,
            rest=model.rest(),
            durable=False,
            epoch="0" * 16,
            kind=Coordinator if stacked is None else CrowdCoordinator,
        )
        if stacked is not None:
            started.journal.store.note(WITHOUT_UPDATES, "yes")
    world = World(started, None if on_event is None else lambda e: on_event(started, e))
    with world.interrupts:
        try:
            crowd: Crowd | None = None
            clients: list[SimulatedClient] = []
            if stacked is not None:
                assert population is not None
                crowd = make_crowd(world, population, workload, stacked)
            else:
                devices = devices if population is None else devices_of(population)
                clients = _one_by_one(world, devices, workload, model)
            examiner = None
            if workload.test_data is None and not config.evaluate.clients:
                _log.warning(
                    "nothing is measured: the workload has no test_data=, and no "
                    "clients evaluate (evaluate.clients)"
                )
            if workload.test_data is not None:
                with user_code("test_data"):
                    test_data = workload.test_data()
                examiner = SimulatedEvaluator(world, model, test_data, needed)

            def is_over() -> bool:
                measured = examiner is None or examiner.is_done
                ended = world.ended is not None and measured
                return ended or len(world.failures) > spare

            if arrivals is not None:
                replay_arrivals(world, clients, arrivals)
            else:
                if population is not None:
                    _end_when_deserted(world, population)
                for client in clients:
                    client.begin_life()
                if crowd is not None:
                    if saved is None:
                        crowd.begin()
                    else:
                        crowd.load(saved)
                    crowd.execute(is_over)
                else:
                    world.execute(is_over)
        finally:
            world.close()
    if len(world.failures) > spare and world.ended is None:
        raise world.failures[0]
    return Results(config.server.journal)


def _version_0(config: FederationConfig, model: FlatModel) -> Vector:
    """That of the file which ``model:`` names, as in a deployment, or drawn."""
    if "model" not in config.model_fields_set or not config.model.is_file():
        return initial_model(model, config.seed)
    spec, initial_D = load_model(config.model)
    model.spec.require(spec, str(config.model))
    _log.info("the run begins with %s", config.model)
    return initial_D


def _refuse_to_resume(stacked: StackedModel | None, folder: Path | None) -> None:
    if folder is None:
        raise ConfigError("resume: say which run: folder=")
    if stacked is None:
        raise ConfigError(
            "resume: clients that are simulated one by one cannot go on after an "
            "interruption (simulate.engine); start the run anew"
        )


def _end_when_deserted(world: World, population: Population) -> None:
    """Once all clients are gone for good, the run cannot reach its stop any more."""
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


def _one_by_one(
    world: World, devices: list[Device], workload: Workload, model: FlatModel
) -> list[SimulatedClient]:
    """Clients with the whole protocol."""
    config, algorithm = world.run.config, world.run.coordinator.algorithm
    trainer = Trainer(
        workload,
        algorithm,
        model=model,
        share_labels=config.share_labels and config.algorithm.uses_labels,
    )
    clients = [SimulatedClient(world, device, workload, trainer) for device in devices]
    if devices[0].population.needs_labels:
        devices[0].population.show_labels(lambda who: clients[who].label_counts)
    return clients


def _must_measure(stop: StopConfig, workload: Workload) -> Collection[str]:
    """What the evaluator must measure, or else the simulation would never end."""
    if stop.versions or stop.updates or stop.seconds:
        return ()
    if not stop.target:
        raise ConfigError(
            "stop: a simulation needs an end: versions, updates, seconds or target"
        )
    if workload.test_data is None:
        raise ConfigError(
            "stop.target: nothing measures it, since the workload has no test_data; "
            "say also versions, updates or seconds"
        )
    return stop.target


def _least(config: AlgorithmConfig) -> int:
    """With fewer clients than this, a version may not be made as it is meant."""
    filled = config.minimum if config.deadline is not None else config.buffer
    return max(config.min_clients, filled if config.synchronous else 1)


def free_folder(config: FederationConfig, what: str = "sim") -> Path:
    """The next unused folder for a simulation of this federation."""
    base = config.server.journal
    number = 1
    while (folder := base.with_name(f"{base.name}-{what}-{number}")).exists():
        number += 1
    return folder
