"""``latecomer.run``: a simulation from Python and notebooks."""

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator import Coordinator, CrowdCoordinator
from fedcore.coordinator.events import Event
from fedcore.coordinator.settings import StopConfig
from fedcore.errors import ConfigError, LatecomerError, WorkloadError
from fedcore.training import Trainer, initial_model
from fedcore.typing import Vector
from fedcore.workload import FlatModel, StackedModel, Workload, user_code
from fedrun.app import app_of, load_app
from fedrun.callbacks import Callback, Notifier
from fedrun.config import FederationConfig, load_config, parse_config
from fedrun.files import load_model
from fedrun.journal import WITHOUT_UPDATES, exists
from fedrun.results import Results
from fedrun.run import Run, forget_failed, start_run
from fedsim.arrivals import recorded_devices, recorded_start, replay_arrivals
from fedsim.client import SimulatedClient, coming
from fedsim.evaluator import (
    Measure,
    SimulatedEvaluator,
    evaluate_last,
    own_evaluation,
)
from fedsim.population import Device, Population, devices_of
from fedsim.progress import RunProgress
from fedsim.stacked import Crowd, Saved, make_crowd, reopen, stacked_model
from fedsim.world import World

_log = logging.getLogger(__name__)

OnEvent = Callable[[Run, Event], str | None]
"""Told of each event; a text that it returns is why the run is to end."""


def run(
    config: FederationConfig | Mapping[str, Any] | str | Path,
    workload: Workload | None = None,
    *,
    folder: str | Path | None = None,
    on_event: OnEvent | None = None,
    callbacks: Sequence[Callback] = (),
    data: Mapping[str, str] | None = None,
    progress: bool | None = None,
    resume: bool = False,
) -> Results:
    """Simulates a federation and returns what came of it.

    Args:
        config: the path of a YAML file, a mapping of the same shape, or a config that
            was read before.
        workload: what clients and evaluator use in a deployment; if left out, that
            which ``app:`` names, looked for in the folder of the file.
        folder: of the run; the next free one beside ``server.journal`` if left out.
        on_event: called after each event; where clients are computed in stacks, after
            each version and each evaluation. If it returns a text, the run ends there,
            and that is the reason.
        callbacks: told of the run's metrics as it goes; they may stop it
            (:meth:`fedrun.callbacks.Callback.stop`).
        data: what ``train_data`` is told as ``client.args``, beside ``simulate.args``.
        progress: show how far it is: a bar in a notebook or on a terminal, lines on the
            standard error elsewhere. Left out, only in a notebook.
        resume: go on with the run in ``folder`` that was interrupted or killed, from
            its last snapshot.

    Raises:
        ConfigError: the config has mistakes, or says nothing of when to stop; the
            folder holds a run already, unless that failed before its first version.
        ModelError: the file of ``model:`` is there, and holds no model.
        SpecMismatchError: it holds another one than the workload's.
        UserCodeError: the user's code raised again and again, until too few clients
            were left to go on; or one client alone does not fit into memory.

    Whatever stops a run that has begun, its records stay: ``Results(folder)`` reads
    them. What a callback raises, and Ctrl-C, has a note that names the folder.
    """
    _check_given(workload, on_event, callbacks, data)
    path = Path(config) if isinstance(config, str | Path) else None
    read = _read(config)
    if workload is None:
        workload = load_app(*app_of(None, read, path), fresh=True)
    if data:
        given = {name: str(value) for name, value in data.items()}
        args = {**read.simulate.args, **given}
        simulate = read.simulate.model_copy(update={"args": args})
        read = read.model_copy(update={"simulate": simulate})
    place = free_folder(read) if folder is None else Path(folder)
    server = read.server.model_copy(update={"journal": place})
    read = read.model_copy(update={"server": server})
    if resume and folder is None:
        raise ConfigError("resume: say which run: folder=")
    console = Console(stderr=True)
    is_shown = console.is_jupyter if progress is None else progress
    with ExitStack() as stack:
        notifier = stack.enter_context(Notifier(callbacks))
        watching: list[OnEvent] = [notifier] if callbacks else []
        watching += [] if on_event is None else [on_event]
        if is_shown:
            watching.append(stack.enter_context(RunProgress(read.stop, console)))
        results = _simulate(read, workload, watching, resume=resume)
        notifier.end(results)
    return results


def _read(
    config: FederationConfig | Mapping[str, Any] | str | Path,
) -> FederationConfig:
    if isinstance(config, FederationConfig):
        return config
    if isinstance(config, str | Path):
        return load_config(Path(config))
    if not isinstance(config, Mapping):
        raise ConfigError(
            "config: expected the path of a YAML file, a mapping or a "
            f"FederationConfig, got {type(config).__name__}"
        )
    return parse_config(config)


def _check_given(
    workload: object, on_event: object, callbacks: object, data: object
) -> None:
    """What Python would complain of later, in words of its own."""
    if workload is not None and not isinstance(workload, Workload):
        raise WorkloadError(
            "workload: expected a Workload or a TorchWorkload, got "
            f"{_kind(workload)}"
            + ("; a name belongs into the config, as app:" * isinstance(workload, str))
        )
    if on_event is not None and not callable(on_event):
        raise ConfigError(f"on_event: expected a function, got {_kind(on_event)}")
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise ConfigError(
            f"callbacks: expected a list of Callback objects, got {_kind(callbacks)}"
        )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise ConfigError(
                f"callbacks: expected Callback objects, got {_kind(callback)}"
            )
    if data is not None and not isinstance(data, Mapping):
        raise ConfigError(
            f"data: expected a mapping such as {{'site': 'a'}}, got {_kind(data)}"
        )


def _kind(given: object) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}; make an object of it"
    return type(given).__name__


def _simulate(
    config: FederationConfig,
    workload: Workload,
    watching: Sequence[OnEvent],
    *,
    resume: bool,
) -> Results:
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
    folder = config.server.journal
    if resume:
        _refuse_to_resume(stacked)
        started, saved = reopen(config, model.spec)
    else:
        _make_room(folder)
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
    world = World(started, _watched(started, watching))
    with world.interrupts:
        try:
            crowd: Crowd | None = None
            measure: Measure | None = None
            if config.evaluate.clients:
                measure = own_evaluation(workload, model)
            clients: list[SimulatedClient] = []
            if stacked is not None:
                assert population is not None
                crowd = make_crowd(world, population, workload, stacked, measure)
            else:
                devices = devices if population is None else devices_of(population)
                clients = _one_by_one(world, devices, workload, model, measure)
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
                if population is not None and clients:
                    for who in coming(config.algorithm, population):
                        clients[who].begin_life()
                if crowd is not None:
                    if saved is None:
                        crowd.begin()
                    else:
                        crowd.load(saved)
                    crowd.execute(is_over)
                else:
                    world.execute(is_over)
            if measure is not None and world.ended is not None:
                everybody = crowd.clients() if crowd else [c.client for c in clients]
                evaluate_last(world, everybody, measure)
        except LatecomerError:
            raise
        except BaseException as error:  # Ctrl-C, or what a callback raises
            error.add_note(f"what there is of the run: Results({str(folder)!r})")
            raise
        finally:
            world.close()
    if len(world.failures) > spare and world.ended is None:
        raise world.failures[0]
    return Results(folder)


def _watched(
    run: Run, watching: Sequence[OnEvent]
) -> Callable[[Event], str | None] | None:
    """All who watch, as one; the first reason to stop counts."""
    if not watching:
        return None

    def tell(event: Event) -> str | None:
        reasons = [look(run, event) for look in watching]
        return next((reason for reason in reasons if isinstance(reason, str)), None)

    return tell


def _make_room(folder: Path) -> None:
    """A simulation that failed before its first version does not block its folder.

    Raises:
        ConfigError: there is a run, and it is worth something.
    """
    if exists(folder) and not forget_failed(folder):
        raise ConfigError(
            f"{folder}: holds a run already; name another folder, or go on with it "
            "(--resume)"
        )


def _version_0(config: FederationConfig, model: FlatModel) -> Vector:
    """That of the file which ``model:`` names, as in a deployment, or drawn."""
    if "model" not in config.model_fields_set or not config.model.is_file():
        return initial_model(model, config.seed)
    spec, initial_D = load_model(config.model)
    model.spec.require(spec, str(config.model))
    _log.info("the run begins with %s", config.model)
    return initial_D


def _refuse_to_resume(stacked: StackedModel | None) -> None:
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
    world: World,
    devices: list[Device],
    workload: Workload,
    model: FlatModel,
    measure: Measure | None,
) -> list[SimulatedClient]:
    """Clients with the whole protocol."""
    config, algorithm = world.run.config, world.run.coordinator.algorithm
    trainer = Trainer(
        workload,
        algorithm,
        model=model,
        share_labels=config.share_labels and config.algorithm.uses_labels,
    )
    clients = [
        SimulatedClient(world, device, workload, trainer, measure) for device in devices
    ]
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
