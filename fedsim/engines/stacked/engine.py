"""Assembles a stacked simulation, or reports why one is not possible."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from fedcore.algorithm import Algorithm, AlgorithmConfig
from fedcore.clients import every
from fedcore.errors import NotStackableError, WorkloadError
from fedcore.memory import keep
from fedcore.model import FlatModel, StackedModel
from fedcore.pool import Pool
from fedcore.stacks import why_one_by_one
from fedcore.user_code import Failure
from fedcore.workload import Client, Workload
from fedrun.config import FederationConfig
from fedrun.methods import list_sources
from fedsim.engines.fates import ENOUGH
from fedsim.engines.ray import ray_links
from fedsim.engines.stacked.clients import StackedClients
from fedsim.engines.stacked.compute import Computer, Computes
from fedsim.engines.stacked.processes import ProcessLink
from fedsim.engines.stacked.trial import Tried, try_clients, try_here
from fedsim.engines.stacked.work import Work
from fedsim.engines.stacked.worker import (
    KEPT,
    Blueprint,
    Trial,
    TrialReply,
    portable,
    portable_settings,
)
from fedsim.engines.stacked.worker_pool import Link, LinkLostError, WorkerPool
from fedsim.evaluator import EvaluateModel
from fedsim.population import Population
from fedsim.world import World

_log = logging.getLogger("fedsim")


def make_stacked_model(
    config: FederationConfig,
    workload: Workload,
    model: FlatModel,
    population: Population | None,
) -> StackedModel | None:
    """Returns a model of many clients at once; None to simulate them one by one."""
    engine = config.simulate.engine
    if engine.kind == "exact":
        return None
    reason = _reason_against(config)
    if reason is None:
        try:
            stacked = model.stack("cpu" if engine.is_shared else engine.device)
            if population is not None:
                _try(config, stacked, workload, model, population)
        except NotStackableError as error:
            reason = str(error)
        else:
            _log.info("clients are trained together: %s", stacked.how)
            return stacked
    _log.info("clients are trained one by one: %s", reason)
    return None


def _try(
    config: FederationConfig,
    stacked: StackedModel,
    workload: Workload,
    model: FlatModel,
    population: Population,
) -> None:
    """Tries the first clients where the tasks will be computed.

    Raises:
        NotStackableError: the model cannot do something for many clients at once.
        WorkloadError: none of them can train, so that no client will.
    """
    clients = [population.client(who) for who in range(min(ENOUGH, population.count))]
    if config.simulate.engine.is_shared:
        link = _links(config, config.algorithm, workload, population, labels=False)
        _try_elsewhere(link, clients)
    else:
        try_clients(clients, partial(try_here, stacked, model, workload))


def _try_elsewhere(link: Callable[[], Link], clients: Sequence[Client]) -> None:
    """Tries the first clients in a worker, because their data may end its process.

    Raises:
        NotStackableError: the model cannot do something for many clients at once.
        WorkloadError: none of them can train, so that no client will.
        LatecomerError: no worker can be started.
    """

    def attempt(client: Client) -> Tried:
        worker = link()
        try:
            worker.send(Trial(client.index))
            reply = worker.receive()
        except LinkLostError as lost:
            told = "%s: its trial before the run has failed: %s"
            _log.warning(told, client.name, lost)
            return Tried(is_read=False)
        finally:
            worker.close()
        if isinstance(reply, Failure):
            raise reply.error()
        assert isinstance(reply, TrialReply)
        error = None if reply.failure is None else reply.failure.error()
        assert error is None or isinstance(error, WorkloadError)
        return Tried(reply.is_read, error)

    try_clients(clients, attempt)


def _reason_against(config: FederationConfig) -> str | None:
    if config.simulate.arrivals is not None:
        return "a recorded order of arrival is replayed exactly"
    reasons = map(why_one_by_one, every(config.algorithm.client))
    return next(filter(None, reasons), None)


def make_stacked_clients(
    world: World,
    population: Population,
    workload: Workload,
    model: StackedModel,
    evaluate: EvaluateModel | None,
) -> StackedClients:
    """Returns all clients of a population, in a world of their own.

    ``evaluate`` makes the evaluations by clients, if there are any.
    """
    run = world.run
    config, algorithm = run.config, run.coordinator.algorithm
    workload.fits(algorithm)
    keep(KEPT, KEPT)
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
    """Returns the place where the tasks are computed, as the engine's config says."""
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
    link = _links(config, algorithm.config, workload, population, labels=count_labels)
    count = engine.actors if engine.kind == "ray" else engine.processes
    return WorkerPool(link, count, pool)


def _links(
    config: FederationConfig,
    algorithm: AlgorithmConfig,
    workload: Workload,
    population: Population,
    *,
    labels: bool,
) -> Callable[[], Link]:
    """Returns a function that starts a worker, which counts labels if asked."""
    engine = config.simulate.engine
    blueprint = Blueprint(
        workload=workload,
        methods=list_sources(),
        algorithm=portable_settings(algorithm),
        clients=[population.client(who) for who in range(population.count)],
        seed=config.seed,
        device=engine.device,
        count_labels=labels,
    )
    if engine.kind == "ray":
        return ray_links(blueprint)
    blueprint = replace(blueprint, workload=portable(workload))
    return lambda: ProcessLink(blueprint)
