"""Simulates a plan over many preemption seeds: its cost, and whether it is done."""

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcore.errors import ConfigError
from fedcore.planning.preemption import ready_stays
from fedcore.planning.volatile_workers import Offer, Plan
from fedcore.typing import Seconds
from fedrun import units
from fedstudies.plan.goal import Target
from fedstudies.plan.measure import Federation
from fedstudies.plan.workers import Workers, write_stays
from fedstudies.runner import simulate, simulate_all
from fedstudies.statistics import estimate, least_share

EVALUATIONS = 60  # of a run, until the number of versions that is predicted
LATE = 1.5  # a run is ended at this multiple of the deadline
KEPT = 0.95  # of the seeds should be done in time
MOST_RETURNS = 10_000  # of a worker in one simulated run


def workers_of(plan: Plan) -> Workers:
    """Returns the workers of a plan."""
    return Workers(
        plan.way.protocol,
        plan.on_demand,
        plan.groups,
        plan.buffer,
        plan.way.local_steps,
        plan.round_deadline,
        plan.rented,
    )


def require_few_returns(offers: Iterable[Offer], limit: Seconds) -> None:
    """Checks that the stays of preemptible workers can be drawn.

    Args:
        offers: of preemptible workers.
        limit: the deadline of a plan.

    Raises:
        ConfigError: they come back too often until a run is ended.
    """
    most = max((offer.returns_within(LATE * limit) for offer in offers), default=0.0)
    if most > MOST_RETURNS:
        raise ConfigError(
            f"--prices: a preemptible worker would come and go some {most:.2g} times "
            f"in {units.in_seconds(LATE * limit)}, which is {LATE:g} times the limit "
            f"of a plan; expected {MOST_RETURNS:,} times or fewer: longer stays or "
            "absences, or an earlier --deadline"
        )


@dataclass(kw_only=True)
class Check:
    """A plan, and what became of it with each seed."""

    name: str
    plan: Plan
    limit: Seconds
    """The deadline, or a multiple of the predicted time where there is none."""
    seeds: Sequence[int]
    seconds: dict[int, Seconds] = field(default_factory=dict)
    """Until the target was reached, by seed; infinite: not within the limit."""
    costs: dict[int, float] = field(default_factory=dict)
    """Until then, or until the run was ended."""

    @property
    def reached(self) -> float:
        """The share of seeds that reached the target at all."""
        return self._share(math.inf)

    @property
    def in_time(self) -> float:
        """The share of seeds that reached the target within the limit."""
        return self._share(self.limit)

    @property
    def holds(self) -> bool:
        """Whether enough seeds are done in time."""
        return bool(self.seconds) and self.in_time >= KEPT - 1e-9

    @property
    def cost(self) -> float:
        """The mean cost."""
        return float(np.mean(list(self.costs.values()))) if self.costs else math.nan

    @property
    def cost_half(self) -> float:
        """Half the width of the 95 % interval of the mean cost; 0 for one seed."""
        return estimate(list(self.costs.values())).half or 0.0

    @property
    def surely_in_time(self) -> float:
        """The share of all seeds that is in time at least, with 95 % confidence."""
        return least_share(round(self.in_time * len(self.seconds)), len(self.seconds))

    @property
    def mean_seconds(self) -> Seconds:
        """The mean time of the seeds that reached the target."""
        done = [each for each in self.seconds.values() if math.isfinite(each)]
        return float(np.mean(done)) if done else math.inf

    def quantile(self, share: float) -> Seconds:
        """Returns the time within which this share of the seeds is done."""
        ordered = sorted(self.seconds.values())
        return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]

    def _share(self, limit: Seconds) -> float:
        if not self.seconds:
            return 0.0
        done = [s <= limit and math.isfinite(s) for s in self.seconds.values()]
        return sum(done) / len(done)

    def simulate(
        self, federation: Federation, target: Target, on_demand_price: float
    ) -> Generator[int]:
        """Simulates all seeds; yields 1 for each that has ended."""
        workers, horizon = workers_of(self.plan), LATE * self.limit
        require_few_returns((group.offer for group in workers.groups), self.limit)
        traces = federation.folder / "stays"
        traces.mkdir(parents=True, exist_ok=True)
        stays = {seed: workers.stays(seed, 1.1 * horizon) for seed in self.seeds}
        wanted, idle = [], []
        for seed, own in stays.items():
            trace = None
            if workers.groups or workers.rented:
                ready = [ready_stays(each, self.plan.restart) for each in own]
                if not any(ready):
                    idle.append(seed)
                    continue
                trace = write_stays(traces / f"{self.name}-{seed}.csv", ready)
            settings = workers.settings(
                federation.config,
                seed=seed,
                trace=trace,
                stop={"seconds": horizon, "target": {target.metric: target.value}},
                every=max(1, self.plan.versions // EVALUATIONS),
            )
            wanted.append((seed, settings))
        for seed in idle:  # nobody ever comes
            self.seconds[seed], self.costs[seed] = math.inf, 0.0
            yield 1
        for task, trial in simulate_all(
            simulate,
            lambda scratch: federation.tasks(wanted, scratch),
            federation.folder,
            federation.jobs,
        ):
            place = trial.reach(target.metric, target.value)
            end = math.inf if place is None else place.seconds
            self.seconds[task.key] = end
            self.costs[task.key] = workers.cost(
                stays[task.key], min(end, horizon), on_demand_price
            )
            yield 1
