"""Puts the parts of a stacked simulation together, or says why there is none."""

import logging
from dataclasses import replace

import numpy as np

from fedcore.algorithm import Algorithm
from fedcore.clients import every
from fedcore.errors import NotStackableError, WorkloadError
from fedcore.model import FlatModel, StackedModel
from fedcore.pool import Pool
from fedcore.rng import Key
from fedcore.samples import require_stackable, stack
from fedcore.stacks import why_one_by_one
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedrun.methods import loaded
from fedsim.evaluator import EvaluateModel
from fedsim.fates import ENOUGH, nobody_trains
from fedsim.population import Population
from fedsim.ray import ray_links
from fedsim.stacked.allocator import keep_memory
from fedsim.stacked.clients import StackedClients
from fedsim.stacked.compute import Computer, Computes
from fedsim.stacked.processes import ProcessLink
from fedsim.stacked.work import Work
from fedsim.stacked.worker import Blueprint, portable, portable_settings
from fedsim.stacked.worker_pool import WorkerPool
from fedsim.world import World

_log = logging.getLogger("fedsim")


def stacked_model(
    config: FederationConfig,
    workload: Workload,
    model: FlatModel,
    population: Population | None,
) -> StackedModel | None:
    """The model for many clients at once; None: they are to be simulated one by one."""
    engine = config.simulate.engine
    if engine.kind == "exact":
        return None
    reason = _reason_against(config)
    if reason is None:
        try:
            stacked = model.stacked("cpu" if engine.is_shared else engine.device)
            if population is not None:
                _try(stacked, workload, model, population)
        except NotStackableError as error:
            reason = str(error)
        else:
            _log.info("clients are trained together: %s", stacked.how)
            return stacked
    _log.info("clients are trained one by one: %s", reason)
    return None


def _try(
    stacked: StackedModel, workload: Workload, model: FlatModel, population: Population
) -> None:
    """One gradient of one client, alone and in a stack: what a module does shows there.

    Where the module or the loss fails, it is that of another client; and so on, since
    one client's data may be the reason.

    Raises:
        NotStackableError: something that cannot be done for many at once.
        WorkloadError: the first clients cannot train, so that none will.
    """
    clients = [population.client(who) for who in range(min(ENOUGH, population.count))]
    for client in clients:
        whose = f"train_data of {client.name}"
        try:
            with user_code(whose):
                samples = workload.samples(workload.train_data(client), whose)
                count = min(2, len(samples))
                batch = samples.batch(np.arange(count))
                require_stackable(batch, count)
                x_1B, y_1B = (stack([part]) for part in batch)
        except NotStackableError:
            raise
        except WorkloadError:
            return  # told when the client is to train
        local_L = () if model.local_L is None else model.local_L
        w_D = np.append(model.initial(Key.root(0)), local_L).astype(np.float32)
        try:
            with user_code("training"):
                model.gradient(w_D, *batch)
                stacked.gradient(w_D[np.newaxis], x_1B, y_1B, np.array([count]))
        except NotStackableError:
            raise
        except WorkloadError as error:
            failed = error
        else:
            return
    raise nobody_trains([client.name for client in clients], failed)


def _reason_against(config: FederationConfig) -> str | None:
    if config.simulate.arrivals is not None:
        return "a recorded order of arrival is replayed exactly"
    reasons = map(why_one_by_one, every(config.algorithm.client))
    return next(filter(None, reasons), None)


def stacked_clients(
    world: World,
    population: Population,
    workload: Workload,
    model: StackedModel,
    evaluate: EvaluateModel | None,
) -> StackedClients:
    """All clients of a population, in a world of their own.

    ``evaluate`` is what they evaluate with, where they do.
    """
    run = world.run
    config, algorithm = run.config, run.coordinator.algorithm
    workload.fits(algorithm)
    keep_memory()
    engine = config.simulate.engine
    count_labels = config.share_labels and config.algorithm.uses_labels
    pool = Pool(counts_labels=count_labels or population.needs_labels)
    computes = _computes(
        config, population, workload, model, pool, algorithm, count_labels
    )
    work = Work(
        algorithm,
        computes,
        population.names,
        most=engine.stack,
        memory_bytes=engine.memory_bytes,
        part=population.place,
    )
    return StackedClients(world, population, workload, pool, work, evaluate)


def _computes(
    config: FederationConfig,
    population: Population,
    workload: Workload,
    model: StackedModel,
    pool: Pool,
    algorithm: Algorithm,
    count_labels: bool,
) -> Computes:
    """Whoever computes the tasks, as the engine says."""
    engine = config.simulate.engine
    if not engine.is_shared:
        return Computer(
            model,
            algorithm,
            pool,
            population.names,
            seed=config.seed,
            count_labels=count_labels,
        )
    blueprint = Blueprint(
        workload=workload,
        methods=loaded(),
        algorithm=portable_settings(algorithm.config),
        clients=[population.client(who) for who in range(population.count)],
        seed=config.seed,
        device=engine.device,
        count_labels=count_labels,
    )
    if engine.kind == "ray":
        return WorkerPool(ray_links(blueprint), engine.actors, pool)
    blueprint = replace(blueprint, workload=portable(workload))
    return WorkerPool(lambda: ProcessLink(blueprint), engine.processes, pool)
