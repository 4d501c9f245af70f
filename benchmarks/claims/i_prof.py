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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.claims import throttled_app
from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
    ratio,
)
from fedcore.clients import LocalSGD
from fedcore.controllers import IProf, Request, ServerController, TaskReport
from fedcore.controllers.i_prof import COSTS, Slopes, facts, predict
from fedcore.coordinator.events import Decided, Enrolled
from fedcore.distributions import LogNormal
from fedcore.measured import Measured
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
MAUI, LAW = "one line for all devices (MAUI)", "each device's own law"
LESS = "with this noise and spread the devices' own laws gain less than 19"
QUANTILES = ("median", "9 of 10")
SAMPLES, EACH = (50, 1000), 10  # of a task whose cost is predicted; tasks of a device
SPREADS, NOISE = (0.5, 1.0), 0.05  # of the logarithm of slopes, and of single tasks
WATTS, BATTERY_JOULES = 5.0, 3600 * 3.0 * 3.85  # 3,000 mAh at 3.85 V


class Miss(NamedTuple):
    """The median over devices of |time - objective| / objective, for two tasks."""

    first: float
    fourth: float


class Part(NamedTuple):
    """A measurement, and what it says of the claim."""

    table: Table
    checks: Sequence[Check]


class Costs(NamedTuple):
    """The relative errors of predicting each cost, one of each task."""

    seconds: list[float]
    joules: list[float]

    @property
    def quantiles(self) -> Sequence[float]:
        """The median error, and what nine of ten do not exceed, of time and energy."""
        return [float(np.quantile(each, q)) for each in self for q in (0.5, 0.9)]


def run(scale: Scale) -> Report:
    """Measures simulated devices, by both methods, and real processes."""
    parts = [
        keep_to_time(scale),
        *(predict_costs(scale, spread) for spread in SPREADS),
        share_of_battery(scale),
    ]
    tables = [part.table for part in parts]
    if not scale.quick:
        tables.insert(1, deploy(scale))
    return Report(
        number=7,
        title="I-Prof keeps tasks to a time",
        source="Damaskinos et al., FLeet, Middleware 2020",
        tables=tables,
        checks=[check for part in parts for check in part.checks],
    )


def keep_to_time(scale: Scale) -> Part:
    """Returns how far tasks miss the objective, with and without regressions."""
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
    gain = ratio(rows[COLD][1], rows[WHOLE][1])
    title = f"{DEVICES} simulated devices, median |time - {OBJECTIVE:g} s| / "
    return Part(
        Table(f"{title}{OBJECTIVE:g} s", ("first task", "fourth task"), rows),
        [at_least("times as near to the objective as cold starts", gain, 2.0)],
    )


def deploy(scale: Scale) -> Table:
    """Returns the same of real processes, which need a machine that is quiet."""
    real = [deployed() for _ in scale.seeds[:3]]
    return Table(
        f"{len(REAL_MS)} real processes, median |time - {REAL_OBJECTIVE:g} s| "
        f"/ {REAL_OBJECTIVE:g} s",
        ("first task", "after three tasks"),
        {WHOLE: [Cell(values) for values in zip(*real, strict=True)]},
    )


def share_of_battery(scale: Scale) -> Part:
    """Returns the percentage of a battery that one task a day uses."""
    used = []
    for seed in scale.seeds:
        *_, last = follow(True, seed)
        joules = float(np.mean([task.joules for task in last]))
        used.append(100 * joules / BATTERY_JOULES)
    title, share = "% of a battery of 3,000 mAh at 3.85 V", Cell(used)
    return Part(
        Table(title, ("one task a day",), {WHOLE: [share]}),
        [at_most(f"{title}, a task a day", average(share), 0.036, gates=False)],
    )


def predict_costs(scale: Scale, spread: float) -> Part:
    """Returns the errors of all predictions on devices whose slopes spread so."""
    rows: dict[str, Sequence[Cell]] = {}
    seeds = [compare(seed, spread) for seed in scale.seeds]
    for name in (WHOLE, MAUI, LAW):
        of_seeds = [found[name].quantiles for found in seeds]
        rows[name] = [Cell(values) for values in zip(*of_seeds, strict=True)]
    columns = [f"{cost}, {what}" for cost in ("time", "energy") for what in QUANTILES]

    def check(column: int, cost: str, bound: float, known: str) -> Check:
        gain = ratio(rows[MAUI][column], rows[WHOLE][column])
        text = f"times less than MAUI's error of {cost}, 9 of 10, σ {spread:g}"
        gates = spread == SPREADS[0]
        return at_least(text, gain, bound, gates=gates, known=known if gates else "")

    return Part(
        Table(f"error of prediction, σ {spread:g}", columns, rows),
        [check(1, "time", 3.6, ""), check(3, "energy", 19.0, LESS)],
    )


def compare(seed: int, spread: float) -> dict[str, Costs]:
    """Returns the errors of I-Prof, of MAUI and of the law in tasks of new devices."""
    population, law = (make_population(seed, spread, noise) for noise in (NOISE, 0.0))
    rule, order, rng = make_rule(), population.order(), np.random.default_rng(seed)
    errors = {name: Costs([], []) for name in (WHOLE, MAUI, LAW)}
    state, seen = rule.init(), list[Measured]()
    old = [(who, task) for task in range(TASKS) for who in order[:DEVICES]]
    new = [(who, task) for task in range(EACH) for who in order[DEVICES:]]
    for place, (who, task) in enumerate(old + new):
        samples = int(np.exp(rng.uniform(*np.log(SAMPLES))))
        measured, exact = (
            each.measured(who, task, samples, each.compute(who, task, samples))
            for each in (population, law)
        )
        if place >= len(old):
            for cost, saved in zip(COSTS, state, strict=True):
                true, known = getattr(measured, cost), Slopes(*saved)
                predicted = {
                    WHOLE: predict_slope(known, measured, cost) * samples,
                    MAUI: fit_line(seen, cost)(samples),
                    LAW: getattr(exact, cost),
                }
                for name, value in predicted.items():
                    getattr(errors[name], cost).append(abs(value - true) / true)
        seen.append(measured)
        name = population.names[who]
        state = rule.observe(state, TaskReport(0.0, name, 0, 1, measured=measured))
    return errors


def predict_slope(known: Slopes, task: Measured, cost: str) -> float:
    """Returns the cost of a sample in a task as I-Prof predicts it."""
    assert task.device is not None
    return predict(known, f"model {task.device.model}", facts(task.device, cost))


def fit_line(seen: Sequence[Measured], cost: str) -> np.polynomial.Polynomial:
    """Returns the line of least squares from samples to a cost, over all tasks."""
    samples = [task.samples for task in seen]
    return np.polynomial.Polynomial.fit(samples, [getattr(t, cost) for t in seen], 1)


def simulated(learns: bool, seed: int) -> Miss:
    """Returns how far new devices' first and fourth tasks miss the objective."""
    missed = [
        far([task.seconds or 0.0 for task in tasks], OBJECTIVE)
        for tasks in follow(learns, seed)
    ]
    return Miss(missed[0], missed[-1])


def follow(learns: bool, seed: int) -> Iterator[Sequence[Measured]]:
    """Yields each task of all new devices, after three tasks of as many others."""
    population, rule = make_population(seed, SPREADS[0]), make_rule()
    state, order = rule.init(), population.order()
    for who in order[:DEVICES]:
        for task in range(1, TASKS + 1):
            state, _ = done(rule, state, population, who, task, learns)
    for task in range(1, TASKS + 2):
        measured = []
        for who in order[DEVICES:]:
            state, took = done(rule, state, population, who, task, learns)
            measured.append(took)
        yield measured


def make_population(seed: int, spread: float, noise: float = NOISE) -> Population:
    """Returns the devices, each of a model of its own."""
    simulate = SimulateConfig(
        clients=2 * DEVICES,
        step_seconds=SLOPE,
        speed=LogNormal(sigma=spread),
        jitter=LogNormal(sigma=noise),
        devices=DevicesConfig(models=2 * DEVICES, noise=0.2, watts=WATTS),
    )
    return Population(simulate, seed)


def make_rule() -> ServerController:
    """Returns I-Prof with the objective."""
    rule = IProf(seconds=OBJECTIVE).build_server(FedBuff(client=LocalSGD(steps=1)))
    assert rule is not None
    return rule


def done(
    rule: ServerController,
    state: State,
    population: Population,
    who: int,
    task: int,
    learns: bool,
) -> tuple[State, Measured]:
    """Returns the state after one task of a device, and what it took."""
    name, device = population.names[who], population.device(who, task)
    if not learns:  # a device whose model is new each time has no regression
        device = device._replace(model=f"{device.model} {task}")
    samples = rule.assign(state, Request(name, device)).samples or 100
    took = population.compute(who, task, samples)
    measured = population.measured(who, task, samples, took)._replace(device=device)
    report = TaskReport(0.0, name, 0, 1, measured=measured)
    return rule.observe(state, report), measured


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
