"""Puts the parts of a stacked simulation together, or says why there is none."""

import logging

from fedcore.coordinator import CrowdCoordinator
from fedcore.errors import NotStackableError
from fedcore.pool import Pool
from fedcore.training import check_fit
from fedcore.workload import FlatModel, StackedModel, Workload
from fedrun.config import FederationConfig
from fedsim.population import Population
from fedsim.stacked.allocator import keep_memory
from fedsim.stacked.crowd import Crowd
from fedsim.stacked.work import Work
from fedsim.world import World

_log = logging.getLogger("fedsim")


def stacked_model(
    config: FederationConfig, workload: Workload, model: FlatModel
) -> StackedModel | None:
    """The model for many clients at once; None: they are to be simulated one by one."""
    engine = config.simulate.engine
    if engine.kind == "exact":
        return None
    reason = _reason_against(config, workload)
    if reason is None:
        try:
            stacked = model.stacked(engine.device)
        except NotStackableError as error:
            reason = str(error)
        else:
            _log.info("clients are trained together: %s", stacked.how)
            return stacked
    _log.info("clients are trained one by one: %s", reason)
    return None


def _reason_against(config: FederationConfig, workload: Workload) -> str | None:
    algorithm = config.algorithm
    if config.simulate.arrivals is not None:
        return "a recorded order of arrival is replayed exactly"
    if workload.train is not None:
        return "the workload has a training loop of its own"
    if config.evaluate.clients:
        return "evaluate.clients: they evaluate what they receive"
    if algorithm.bandwidth is not None:
        return "algorithm.bandwidth: each client keeps a budget of its own"
    if algorithm.uplink.sends_changes:
        return f"algorithm.uplink: with {algorithm.uplink.kind}, messages are changes"
    return None


def make_crowd(
    world: World, population: Population, workload: Workload, model: StackedModel
) -> Crowd:
    """All clients of a population, in a world of their own."""
    run = world.run
    assert isinstance(run.coordinator, CrowdCoordinator)
    config, algorithm = run.config, run.coordinator.algorithm
    check_fit(workload, algorithm)
    keep_memory()
    engine, pool = config.simulate.engine, Pool()
    work = Work(
        model,
        algorithm,
        population.names,
        pool,
        seed=config.seed,
        count_labels=config.share_labels and config.algorithm.uses_labels,
        most=engine.stack,
        memory_bytes=engine.memory_bytes,
    )
    return Crowd(world, population, workload, pool, work)
