"""Claim 33: two bids, a number of workers that grows, and restarts, as planned.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649. Claim 12's hard job, a loss that one worker does not reach, in
synchronous rounds as in the paper: the cheapest plan of each kind is simulated at the
same target and deadline, with the same preemption seeds. The kinds are one bid and a
constant number of workers, two bids, and a number that grows. The market's price is
low half of the time. Predictions are of means, so plans have four fifths of the time.

Restarts, with claim 12's easy job: workers are often taken away, and take five minutes
to start again. The cheapest plan of volatile workers, in rounds and with a buffer, is
predicted and simulated with restarts and without. What restarts add is the ratio of
both, in the prediction and in the simulation. The negative control forgets them. The
bounds were set with seeds 0 to 9.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
    ratio,
)
from benchmarks.claims.volatile_workers import (
    ALGORITHM,
    APP,
    CLIENT,
    EASY,
    FEDERATION,
    HARD,
    JOBS,
    Job,
)
from fedcore.planning.volatile_workers import (
    Offer,
    Plan,
    Predictor,
    Question,
    Way,
    all_plans,
    cheapest,
    plain,
)
from fedrun.config import parse_config
from fedstudies.plan.check import Check
from fedstudies.plan.goal import Target
from fedstudies.plan.measure import Federation, PilotRuns, ways_of
from fedstudies.prices.price_file import PreemptibleConfig

ON_DEMAND, DEADLINE, PLANNED, CHECKS = 3.06, 4500.0, 3600.0, 20
QUANTILES = ((0.5, 0.3), (0.6, 0.6), (0.7, 1.0), (0.8, 1.5), (0.9, 2.2), (1.0, 3.0))
MARKET = {
    "change_seconds": 60,
    "quantiles": [{"share": share, "price": price} for share, price in QUANTILES],
}
OFTEN = {"price": 1.09, "preemptions_per_hour": 3, "recovery_seconds": 600}
RESTART, PATIENCE = 300.0, 3.0
TOO_LONG = "rounds with somebody away end before their deadline, which is predicted"
ONE, TWO, GROWING = "one bid", "two bids", "a number that grows"
PROTOCOLS = ("synchronous", "buffered")
KINDS = ("USD", "predicted USD", "minutes", "predicted minutes", "in time")
RESTARTS = (  # times what it takes without restarts, and times what is predicted
    "x minutes",
    "x USD",
    "x, predicted",
    "minutes / predicted",
    "USD / predicted",
    "without",
    "forgotten",
)


def run(scale: Scale) -> Report:
    """Simulates the cheapest plan of each kind, and plans with restarts."""
    with ProcessPoolExecutor(min(2, len(scale.seeds)), get_context("spawn")) as pool:
        found = list(pool.map(partial(of_seed, scale), scale.seeds))
    kinds = {name: cells([f.kinds[name] for f in found]) for name in found[0].kinds}
    restarts = {name: cells([f.restarts[name] for f in found]) for name in PROTOCOLS}
    hard, easy = JOBS[HARD], JOBS[EASY]
    return Report(
        number=33,
        title="Two bids and growing numbers are cheaper, and restarts are predicted",
        source="Zhang, Wang, Joshi, Joe-Wong, INFOCOM 2020",
        tables=[
            Table(
                f"To a loss of {hard.loss:g} within {DEADLINE / 60:g} minutes, in "
                f"rounds: means of {CHECKS} seeds",
                KINDS,
                kinds,
            ),
            Table(
                f"Restarts of {RESTART:g} s, to a loss of {easy.loss:g}: means of "
                f"{CHECKS} seeds",
                RESTARTS,
                restarts,
            ),
        ],
        checks=[
            at_most(
                "cost of two bids over that of one",
                ratio(kinds[TWO][0], kinds[ONE][0]),
                1.0,
            ),
            at_most(
                "cost of a number that grows over that of a constant one",
                ratio(kinds[GROWING][0], kinds[ONE][0]),
                0.9,
            ),
            *(
                at_least(f"in time, {name}", average(row[4]), 0.9)
                for name, row in kinds.items()
            ),
            *(
                at_most(
                    f"relative error of what restarts add to the {what}, {name}",
                    average(off(row[at], row[2])),
                    0.15,
                )
                for name, row in restarts.items()
                for what, at in (("time", 0), ("cost", 1))
            ),
            *(
                at_most(
                    f"relative error of the {what} with restarts, {name}",
                    average(off(row[at])),
                    0.3,
                    known=TOO_LONG if name == "synchronous" else "",
                )
                for name, row in restarts.items()
                for what, at in (("time", 3), ("cost", 4))
            ),
        ],
    )


def cells(rows: Sequence[Sequence[float]]) -> list[Cell]:
    """Returns the columns of rows, one for each seed."""
    return [Cell(values) for values in zip(*rows, strict=True)]


def off(measured: Cell, predicted: Cell | None = None) -> Cell:
    """Returns the relative errors of what was predicted; None: it is the unit."""
    expected = [1.0] * len(measured.values) if predicted is None else predicted.values
    pairs = zip(measured.values, expected, strict=True)
    return Cell([abs(value / other - 1) for value, other in pairs])


class Found(NamedTuple):
    """The rows of both tables with one seed."""

    kinds: dict[str, list[float]]
    restarts: dict[str, list[float]]


def of_seed(scale: Scale, seed: int) -> Found:
    """Measures the pilots of both jobs with one seed, and simulates what follows."""
    checks = scale.of(CHECKS, 2)
    with laboratory(JOBS[HARD], scale, seed) as lab:
        kinds = compare_kinds(lab, checks)
    with laboratory(JOBS[EASY], scale, seed) as lab:
        restarts = {
            str(way.protocol): with_restarts(lab, way, checks) for way in lab.ways
        }
    return Found(kinds, restarts)


class Lab(NamedTuple):
    """A job with its pilots, whose plans can be simulated."""

    job: Job
    federation: Federation
    ways: list[Way]

    def check(self, name: str, plan: Plan, limit: float, checks: int) -> Check:
        """Returns a plan and what became of it over preemption seeds."""
        first = self.federation.config.seed + 1000
        seeds = range(first, first + checks)
        check = Check(name=name, plan=plan, limit=limit, seeds=seeds)
        target = Target("loss", self.job.loss)
        for _ in check.simulate(self.federation, target, ON_DEMAND):
            pass
        return check


@contextmanager
def laboratory(job: Job, scale: Scale, seed: int) -> Iterator[Lab]:
    """Simulates the pilots of a job."""
    job = job._replace(most=scale.of(job.most, 4))
    algorithm = {**ALGORITHM, "client": {**CLIENT, "batch": job.batch}}
    settings = {**FEDERATION, "app": APP, "algorithm": algorithm}
    config = parse_config({**settings, "seed": 10_000 * seed})
    target = Target("loss", job.loss)
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(config, APP, Path.cwd(), Path(folder), 1)
        runs = PilotRuns(
            federation=federation,
            target=target,
            most=job.most,
            versions=job.pilot_versions,
            seeds=range(config.seed, config.seed + 2),
            local_steps=[1],
        )
        for _ in runs.simulate():
            pass
        ways, _ = ways_of(runs.found, target)
        yield Lab(job, federation, ways)


def compare_kinds(lab: Lab, checks: int) -> dict[str, list[float]]:
    """Returns the rows of the cheapest plan of each kind in the market."""
    question = Question(lab.job.loss, ON_DEMAND, deadline=PLANNED)
    rounds = [way for way in lab.ways if way.protocol == "synchronous"]
    plans = all_plans(question, rounds, offers_of(MARKET), lab.job.most)
    kinds = {
        ONE: plain(plans),
        TWO: [plan for plan in plans if len(plan.groups) == 2],
        GROWING: [plan for plan in plans if plan.growth],
    }
    rows = {}
    for name, some in kinds.items():
        plan = cheapest(some, question)
        assert plan is not None
        check = lab.check(name, plan, DEADLINE, checks)
        minutes = check.mean_seconds / 60, plan.seconds / 60
        rows[name] = [check.cost, plan.cost, *minutes, check.in_time]
    return rows


def with_restarts(lab: Lab, way: Way, checks: int) -> list[float]:
    """Returns the row of the cheapest plan whose workers are all volatile."""
    question = Question(lab.job.loss, ON_DEMAND, restart=RESTART)
    plans = all_plans(question, [way], offers_of(OFTEN), lab.job.most)
    plan = cheapest([p for p in plain(plans) if not p.on_demand], question)
    assert plan is not None
    buffer = None if way.protocol == "synchronous" else plan.buffer
    forgetful = question._replace(restart=0.0)
    other = Predictor(forgetful, way).plan(0, plan.groups, buffer)
    assert other is not None
    limit = PATIENCE * plan.seconds
    found = lab.check(f"{way.protocol} restarts", plan, limit, checks)
    without = lab.check(f"{way.protocol} without", other, limit, checks)
    return [
        found.mean_seconds / without.mean_seconds,
        found.cost / without.cost,
        plan.seconds / other.seconds,  # as of the cost: who is there stays the same
        found.mean_seconds / plan.seconds,
        found.cost / plan.cost,
        without.mean_seconds / other.seconds,
        found.mean_seconds / other.seconds,
    ]


def offers_of(preemptible: Mapping[str, object]) -> list[Offer]:
    """Returns the offers of a price file's preemptible workers."""
    return PreemptibleConfig.model_validate(preemptible).offers()
