"""Claim 7: I-Prof gives devices tasks of the requested duration.

Damaskinos et al., "FLeet", Middleware 2020, arXiv 2006.07273. Twenty simulated devices,
each of a model of its own, whose slopes are log-normal around 10 ms a sample (σ = .5).
Their frequency and memory follow the slope with noise (σ = .2), their temperature and
free memory are not related to it, and each task takes 5 % more or less by chance.
Twenty others have done three tasks each before. The measure is the distance of the
fourth task of each device from the objective of 3 s. Without regressions of device
models, only the least squares over all devices predict, as they do before a device's
first task.

In addition, four real client processes, which take 1 to 8 ms a sample, learn with a
real server by their own clocks; tasks are of 4 samples a step.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.claims import throttled_app
from benchmarks.claims.report import Cell, Report, Scale, Table, at_least, ratio
from fedcore.clients import LocalSGD
from fedcore.controllers import IProf, Request, ServerController, TaskReport
from fedcore.coordinator.events import Decided, Enrolled
from fedcore.distributions import LogNormal
from fedcore.recipes import FedBuff
from fedcore.typing import State
from fedrun.config import DevicesConfig, SimulateConfig
from fedsim.population import Population
from fedview.results import Results
from tools.local import LocalFederation

DEVICES, TASKS = 20, 3
SLOPE, OBJECTIVE = 0.01, 3.0
REAL_MS, REAL_OBJECTIVE, REAL_TASKS = (1, 2, 4, 8), 0.4, 10
WHOLE, COLD = "I-Prof", "least squares over all devices alone"


class Miss(NamedTuple):
    """The median over devices of |time - objective| / objective, for two tasks."""

    first: float
    fourth: float


def run(scale: Scale) -> Report:
    """Measures simulated devices with and without regressions, and real processes."""
    found = {
        name: [simulated(name == WHOLE, seed) for seed in scale.seeds]
        for name in (WHOLE, COLD)
    }
    rows = {
        name: [Cell([m.first for m in misses]), Cell([m.fourth for m in misses])]
        for name, misses in found.items()
    }
    for name, expected in ((WHOLE, ".044"), (COLD, ".134")):
        rows[name][1] = rows[name][1]._replace(expected=expected)
    tables = [
        Table(
            f"{DEVICES} simulated devices, median |time - {OBJECTIVE:g} s| / "
            f"{OBJECTIVE:g} s",
            ("first task", "fourth task"),
            rows,
        )
    ]
    if not scale.quick:
        real = [deployed() for _ in scale.seeds[:3]]
        cells = [Cell(values) for values in zip(*real, strict=True)]
        tables.append(
            Table(
                f"{len(REAL_MS)} real processes, median |time - {REAL_OBJECTIVE:g} s| "
                f"/ {REAL_OBJECTIVE:g} s",
                ("first task", "after three tasks"),
                {WHOLE: cells},
            )
        )
    gain = ratio(rows[COLD][1], rows[WHOLE][1])
    return Report(
        number=7,
        title="I-Prof keeps tasks to a time",
        source="Damaskinos et al., FLeet, Middleware 2020",
        tables=tables,
        checks=[at_least("times as near to the objective as cold starts", gain, 2.0)],
    )


def simulated(learns: bool, seed: int) -> Miss:
    """Returns how far new devices' first and fourth tasks miss the objective."""
    simulate = SimulateConfig(
        clients=2 * DEVICES,
        step_seconds=SLOPE,
        speed=LogNormal(sigma=0.5),
        jitter=LogNormal(sigma=0.05),
        devices=DevicesConfig(models=2 * DEVICES, noise=0.2),
    )
    population = Population(simulate, seed)
    rule = IProf(seconds=OBJECTIVE).build_server(FedBuff(client=LocalSGD(steps=1)))
    assert rule is not None
    state = rule.init()
    order = population.order()
    for who in order[:DEVICES]:
        for task in range(1, TASKS + 1):
            state, _ = done(rule, state, population, who, task, learns)
    missed = []
    for task in range(1, TASKS + 2):
        times = []
        for who in order[DEVICES:]:
            state, seconds = done(rule, state, population, who, task, learns)
            times.append(seconds)
        missed.append(far(times, OBJECTIVE))
    return Miss(missed[0], missed[-1])


def done(
    rule: ServerController,
    state: State,
    population: Population,
    who: int,
    task: int,
    learns: bool,
) -> tuple[State, float]:
    """Returns the state after one task of a device, and its seconds."""
    name, device = population.names[who], population.device(who, task)
    if not learns:  # a device whose model is new each time has no regression
        device = device._replace(model=f"{device.model} {task}")
    samples = rule.assign(state, Request(name, device)).samples or 100
    took = population.compute(who, task, samples)
    measured = population.measured(who, task, samples, took)
    report = TaskReport(0.0, name, 0, 1, measured=measured._replace(device=device))
    return rule.observe(state, report), took


def far(times: list[float], objective: float) -> float:
    """Returns the median deviation from the objective, as a share of it."""
    return float(np.median(np.abs(np.array(times) - objective) / objective))


def deployed() -> Miss:
    """Returns the same of real processes, for the first task and all after three."""
    app = f"{Path(throttled_app.__file__)}:workload"
    settings = {
        "app": app,
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "algorithm": {
            "kind": "fed_async",
            "min_clients": len(REAL_MS),
            "client": {"kind": "local_sgd", "steps": 5, "batch": 4},
            "controllers": [
                {"kind": "i_prof", "seconds": REAL_OBJECTIVE, "each": "client"}
            ],
        },
        "stop": {"updates": REAL_TASKS * len(REAL_MS)},
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalFederation(Path(folder) / "fed", settings, app) as real,
    ):
        server = real.server("--no-evaluator")
        for index, ms in enumerate(REAL_MS):
            real.client(index, len(REAL_MS), "--data", f"ms={ms}", name=f"{ms} ms")
        if server.wait() != 0:
            raise RuntimeError(server.tail())
        results = Results(real.run)
        times: dict[str, list[float]] = {
            record.cid: [] for record in results.of(Enrolled)
        }
        for record in results.of(Decided):
            assert record.measured is not None
            times[record.cid].append(record.measured.seconds)
    first = [own[0] for own in times.values()]
    later = [seconds for own in times.values() for seconds in own[TASKS:]]
    return Miss(far(first, REAL_OBJECTIVE), far(later, REAL_OBJECTIVE))
