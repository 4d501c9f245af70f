"""Claim 12: the error floor follows E[1/y], and a plan of volatile workers is cheaper.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649. First without a federation: SGD on a strongly convex loss, where each
of n workers is away with probability q in each iteration; the mean gap of the later
iterations against E[1/y], and against 1/n as a control. Then the planner: it is given
prices with published preemption statistics, a target loss and a deadline, and its plan
and two baselines are simulated over 20 preemption seeds each. One worker reaches the
target of the easy job; the hard one has noisier gradients, of one sample a worker, and
a target below the floor of one worker.
"""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

import latecomer
from benchmarks.claims.parity_app import gradient_of, loss_of, samples
from benchmarks.claims.report import Cell, Report, Scale, Table, at_least, at_most
from fedcore.planning.active_workers import distribution, moments_of
from fedstudies.plan.outcome import CHOICE, HALF, ON_DEMAND, PlanOutcome

LR, BATCH = 0.3, 4
WORKERS, AWAY = (1, 2, 4, 8, 16), (0.0, 0.25, 0.5, 0.75)
ITERATIONS, BURNED = 3000, 500
CHECKS = 20


class Job(NamedTuple):
    """A question for the planner: a target, a deadline, and what may be rented."""

    loss: float
    batch: int  # samples a worker
    deadline: float  # seconds
    most: int  # workers
    pilot_versions: int


EASY, HARD = "easy", "hard"
JOBS = {EASY: Job(0.38, BATCH, 2700.0, 8, 100), HARD: Job(0.36, 1, 5400.0, 16, 200)}
COLUMNS = {
    "USD": ("cost", 1),
    "predicted USD": ("predicted_cost", 1),
    "minutes": ("seconds", 60),
    "predicted minutes": ("predicted_seconds", 60),
    "in time": ("in_time", 1),
}
PREEMPTIBLE = {"price": 1.09, "preemptions_per_hour": 0.298, "recovery_seconds": 6680}
CLIENT = {"kind": "local_sgd", "lr": LR, "steps": 1}
ALGORITHM = {"kind": "fed_avg", "weigh_by": "updates"}
APP = "benchmarks.claims.parity_app:workload"
FEDERATION = {
    "simulate": {"clients": 16, "step_seconds": 30.0, "link": {"latency": 0.05}},
    "stop": {"versions": 100},
}


class Found(NamedTuple):
    """What was measured with one seed: the floors, and the plans with their checks."""

    fit: tuple[float, float, float]
    rows: dict[str, dict[str, dict[str, float]]]
    """The checks of the plan and its baselines, by job and name."""
    dear: float
    """Preemptible workers where they cost as much as others."""

    def saved(self, job: str, name: str) -> float:
        """The share of a baseline's cost that the plan saves."""
        rows = self.rows[job]
        return 1 - rows[CHOICE]["cost"] / rows[name]["cost"]


def run(scale: Scale) -> Report:
    """Measures floors, and simulates the planner's choice beside its baselines."""
    measure = partial(of_seed, scale)
    with ProcessPoolExecutor(len(scale.seeds), get_context("spawn")) as pool:
        found = list(pool.map(measure, scale.seeds))
    slopes, squares, controls = zip(*(each.fit for each in found), strict=True)
    least = {
        (job, name): min(each.saved(job, name) for each in found)
        for job in JOBS
        for name in (ON_DEMAND, HALF)
    }
    in_time = [
        CHECKS * each.rows[job][CHOICE]["in_time"] for each in found for job in JOBS
    ]
    chosen = [each.dear for each in found]
    return Report(
        number=12,
        title="The error floor follows E[1/y], and the plan is cheaper",
        source="Zhang, Wang, Joshi, Joe-Wong, INFOCOM 2020",
        tables=[
            Table(
                "Error floor over 20 pairs of n and q",
                ("slope", "R² with E[1/y]", "correlation with 1/n"),
                {"gap": [Cell(slopes), Cell(squares), Cell(controls)]},
            ),
            *(
                Table(
                    f"To a loss of {what.loss:g}, {job}: means of 20 seeds",
                    tuple(COLUMNS),
                    {
                        name: [
                            Cell([each.rows[job][name][key] / by for each in found])
                            for key, by in COLUMNS.values()
                        ]
                        for name in (CHOICE, ON_DEMAND, HALF)
                    },
                )
                for job, what in JOBS.items()
            ),
        ],
        checks=[
            at_least("R² of the floor with E[1/y]", min(squares), 0.98),
            at_most("correlation of the floor with 1/n", max(controls), 0.95),
            at_least(
                f"saved against all on demand, {EASY}",
                least[EASY, ON_DEMAND],
                0.4,
                known="one worker on demand is enough, and several are less efficient",
            ),
            at_least(
                f"saved against all on demand, {HARD}", least[HARD, ON_DEMAND], 0.4
            ),
            at_least(
                "saved against half and half",
                min(least[job, HALF] for job in JOBS),
                0.1,
            ),
            at_least("seeds of 20 within the deadline", min(in_time), 19),
            at_most(
                "preemptible workers where they cost as much as others",
                max(map(abs, chosen)),
                0,
            ),
        ],
    )


def of_seed(scale: Scale, seed: int) -> Found:
    """Measures the floors and the plans of one seed."""
    gaps = {
        (n, q): floor_of(n, q, scale.of(ITERATIONS, 60), scale.of(BURNED, 20), seed)
        for n in WORKERS
        for q in AWAY
    }
    jobs = JOBS
    if scale.quick:
        jobs = dict.fromkeys(JOBS, JOBS[EASY]._replace(most=4))
    outcomes = {
        name: planned(seed, job, scale.of(CHECKS, 2), PREEMPTIBLE)
        for name, job in jobs.items()
    }
    dear = planned(seed, jobs[EASY], 1, {**PREEMPTIBLE, "price": 3.06})
    return Found(
        fit_of(gaps),
        {
            job: {name: row(outcome, name) for name in (CHOICE, ON_DEMAND, HALF)}
            for job, outcome in outcomes.items()
        },
        float(dear.recommendation.get("preemptible", -1)),
    )


def floor_of(n: int, q: float, iterations: int, burned: int, seed: int) -> float:
    """The mean gap of SGD's later iterations, with n workers of chance presence."""
    rng = np.random.default_rng((seed, n, round(100 * q)))
    x_ND, y_N = (part.astype(np.float64) for part in samples())
    best_D = optimum(x_ND, y_N)
    least, w_D, total, count = loss_of(best_D, x_ND, y_N), best_D.copy(), 0.0, 0
    for iteration in range(iterations):
        active = 0
        while not active:
            active = int(rng.binomial(n, 1 - q))
        rows = rng.integers(len(y_N), size=BATCH * active)
        w_D -= LR * gradient_of(w_D, x_ND[rows], y_N[rows])
        if iteration >= burned and iteration % 5 == 0:
            total += loss_of(w_D, x_ND, y_N) - least
            count += 1
    return total / count


def optimum(x_ND: np.ndarray, y_N: np.ndarray) -> np.ndarray:
    """The minimum, by Newton's method."""
    w_D = np.zeros(x_ND.shape[1])
    for _ in range(20):
        p_N = 1 / (1 + np.exp(-x_ND @ w_D))
        weighed_ND = x_ND * (p_N * (1 - p_N))[:, None]
        hessian_DD = x_ND.T @ weighed_ND / len(y_N) + 0.01 * np.eye(len(w_D))
        w_D -= np.linalg.solve(hessian_DD, gradient_of(w_D, x_ND, y_N))
    return w_D


def fit_of(gaps: dict[tuple[int, float], float]) -> tuple[float, float, float]:
    """The slope through 0 over E[1/y], its R², and the correlation with 1/n."""
    gap_P = np.array(list(gaps.values()))
    inverse_P = np.array([moments_of(distribution(0, n, q)).inverse for n, q in gaps])
    slope = float(inverse_P @ gap_P / (inverse_P @ inverse_P))
    left = float(((gap_P - slope * inverse_P) ** 2).sum())
    square = 1 - left / float(((gap_P - gap_P.mean()) ** 2).sum())
    control = float(np.corrcoef(gap_P, [1 / n for n, _ in gaps])[0, 1])
    return slope, square, control


def planned(
    seed: int, job: Job, checks: int, preemptible: dict[str, float], app: str = APP
) -> PlanOutcome:
    """The plan with these prices and up to so many workers."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config, prices = place / "federation.yaml", place / "prices.yaml"
        client = {**CLIENT, "batch": job.batch}
        algorithm = {**ALGORITHM, "client": client}
        settings = {**FEDERATION, "app": app, "algorithm": algorithm}
        config.write_text(yaml.safe_dump(settings))
        prices.write_text(
            yaml.safe_dump({"on_demand": 3.06, "preemptible": preemptible})
        )
        return latecomer.plan(
            config,
            prices,
            target={"loss": job.loss},
            deadline=job.deadline,
            workers=job.most,
            pilot_versions=job.pilot_versions,
            checks=checks,
            changes={"seed": 10_000 * seed},
            out=place / "plan",
        )


def row(outcome: PlanOutcome, name: str) -> dict[str, float]:
    """The checks of the plan with this name, by column."""
    table = outcome.checks
    place = 0 if name == CHOICE else table["plan"].index(name)
    return {key: table[key][place] for key in table}
