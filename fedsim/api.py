"""``fedsim.run``: a simulation from Python and notebooks."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.events import Event
from fedcore.coordinator.settings import StopConfig
from fedcore.errors import ConfigError
from fedcore.training import Trainer, initial_model
from fedcore.workload import Workload, user_code
from fedrun.config import FederationConfig, parse_config
from fedrun.results import Results
from fedrun.run import Run, start_run
from fedsim.arrivals import recorded_devices, recorded_start, replay_arrivals
from fedsim.client import SimulatedClient
from fedsim.evaluator import SimulatedEvaluator
from fedsim.population import draw_population
from fedsim.world import World


def run(
    config: FederationConfig | Mapping[str, Any],
    workload: Workload,
    *,
    folder: Path | None = None,
    on_event: Callable[[Run, Event], None] | None = None,
) -> Results:
    """Simulates a federation and returns what came of it.

    Args:
        config: as in the YAML, or a mapping of the same shape.
        workload: what clients and evaluator use in a deployment.
        folder: of the run; the next free one beside ``server.journal`` if left out.
        on_event: called after each event, for progress.

    Raises:
        ConfigError: the config has mistakes, or says nothing of when to stop.
        UserCodeError: the user's code raised again and again, until too few clients
            were left to go on.
    """
    if not isinstance(config, FederationConfig):
        config = parse_config(config)
    server = config.server.model_copy(update={"journal": folder or free_folder(config)})
    config = config.model_copy(update={"server": server})
    needed = _must_measure(config.stop, workload)
    arrivals = config.simulate.arrivals
    if arrivals is None:
        began, least = 0.0, _least(config.algorithm)
        devices = draw_population(config.simulate, config.seed)
    else:
        # Its rounds were filled, perhaps by a client that delivered twice.
        began, least = recorded_start(arrivals), config.algorithm.min_clients
        devices = recorded_devices(config.simulate, arrivals, config.seed)
    spare = len(devices) - least
    if spare < 0:
        raise ConfigError(
            f"{len(devices)} clients are simulated, the algorithm needs {least}"
        )
    with user_code("the model"):
        model = workload.flat()
    initial_D = initial_model(model, config.seed)
    started = start_run(
        config, model.spec, initial_D, began, durable=False, epoch="0" * 16
    )
    world = World(started, None if on_event is None else lambda e: on_event(started, e))
    trainer = Trainer(
        workload,
        started.coordinator.algorithm,
        model=model,
        share_labels=config.share_labels and config.algorithm.uses_labels,
    )
    clients = [SimulatedClient(world, device, workload, trainer) for device in devices]
    examiner = None
    if workload.test_data is not None:
        with user_code("test_data"):
            test_data = workload.test_data()
        examiner = SimulatedEvaluator(world, model, test_data, needed)
    with world.interrupts:
        try:
            if arrivals is not None:
                replay_arrivals(world, clients, arrivals)
            else:
                for client in clients:
                    client.begin_life()
                world.execute(
                    lambda: (
                        (
                            world.ended is not None
                            and (examiner is None or examiner.is_done)
                        )
                        or len(world.failures) > spare
                    )
                )
        finally:
            world.close()
    if len(world.failures) > spare and world.ended is None:
        raise world.failures[0]
    return Results(config.server.journal)


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
