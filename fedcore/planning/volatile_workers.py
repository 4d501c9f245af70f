"""Cost and time of volatile workers, and the search for the cheapest plan.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649. A plan says how many workers are on demand and preemptible, at which
bid, and how many versions they make. Its error follows the fitted model
(:mod:`fedcore.planning.error_model`); its time is J E[seconds of a version]; its cost
is what its workers are paid while they are there:

    cost = time (n_od price_od + n_sp (1 - q) price_sp).

Synchronous rounds wait for all workers, or for the deadline of the round where one is
away: R = P(all) E[slowest] + P(not all) D, and a round without anybody adds D.
Buffered versions take K tasks of the workers that are there on average, and 1/y = 1/K.

The optimal uniform bid is b* = F^-1(J R(n) / θ): the work needs J R(n) seconds, workers
are there for a share F(b) of them, and cost rises with b, so that the lowest bid that
keeps the deadline θ is the best. It is derived; the theorem itself was not within
reach.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedcore.planning.active_workers import active_workers, mean_slowest
from fedcore.planning.error_model import ErrorModel
from fedcore.typing import Seconds

Protocol = Literal["synchronous", "buffered"]
HOUR = 3600.0
ROUND_SLACK = 1.05
"""The deadline of a round, as a multiple of the slowest task that was measured."""


class Offer(NamedTuple):
    """The price and the availability of preemptible workers."""

    price: float
    """Paid for an hour of presence, on average."""
    up: Seconds
    """Mean seconds of a stay."""
    down: Seconds
    """Mean seconds of an absence."""
    bid: float | None = None
    """The bid that makes it so; None: nobody bids."""

    @property
    def away(self) -> float:
        """q, the share of time for which a worker is away."""
        return 0.0 if math.isinf(self.up) else self.down / (self.up + self.down)

    @property
    def together(self) -> bool:
        """Whether all come and go together, as bidders in one market do."""
        return self.bid is not None

    def returns_within(self, seconds: Seconds) -> float:
        """Returns the mean number of times that a worker comes back within a time."""
        if math.isinf(self.up) or not self.down:
            return 0.0
        return seconds / (self.up + self.down)

    def share_finished(self, task: Seconds) -> float:
        """Returns the share of tasks of this length that end before a worker leaves."""
        return math.exp(-task / self.up)


class Way(NamedTuple):
    """A way to train that pilots have measured."""

    protocol: Protocol
    local_steps: int | None
    """The communication period; None: as the config says."""
    model: ErrorModel
    """The best fit to the pilots."""
    lowest: ErrorModel
    """The fit with the lowest limit of the error that they leave possible."""
    task_seconds: Sequence[Seconds]
    """Measured durations of tasks."""
    message_bytes: float = 0.0
    """Bytes up and down of an update, on average."""

    @property
    def task(self) -> Seconds:
        """The mean duration of a task."""
        return mean_slowest(self.task_seconds, 1)

    @property
    def round_deadline(self) -> Seconds:
        """The deadline of a synchronous round."""
        return ROUND_SLACK * max(self.task_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A way to train with certain workers, and what the model predicts of it."""

    way: Way
    offer: Offer
    on_demand: int
    preemptible: int
    buffer: int
    versions: int
    error: float
    inverse: float
    """E[1/y]."""
    tasks: float
    """Tasks that are finished."""
    seconds: Seconds
    cost: float

    @property
    def workers(self) -> int:
        """All workers."""
        return self.on_demand + self.preemptible

    @property
    def bid(self) -> float | None:
        """The bid of its preemptible workers; None: nobody bids."""
        return self.offer.bid if self.preemptible else None

    @property
    def worker_seconds(self) -> Seconds:
        """The time that is paid, of all workers together."""
        there = self.on_demand + self.preemptible * (1 - self.offer.away)
        return self.seconds * there


class Question(NamedTuple):
    """The planner's question."""

    error: float
    """The error to reach."""
    on_demand_price: float
    """Of a worker for an hour."""
    deadline: Seconds | None = None
    budget: float | None = None

    @property
    def seeks_soonest(self) -> bool:
        """Whether the soonest plan is asked for, not the cheapest one."""
        return self.deadline is None and self.budget is not None

    def keeps(self, plan: Plan) -> bool:
        """Returns whether a plan is within the deadline and the budget."""
        return (self.deadline is None or plan.seconds <= self.deadline) and (
            self.budget is None or plan.cost <= self.budget
        )

    def order(self, plans: Iterable["Plan"]) -> list["Plan"]:
        """Returns the frontier of plans within the limits, from the best plan on.

        The best one is the cheapest, and each other one is sooner and costs more. Where
        only a budget is given, the best one is the soonest, and each other one is later
        and cheaper.
        """
        found = frontier(plan for plan in plans if self.keeps(plan))
        return found if self.seeks_soonest else found[::-1]


def plan_of(
    question: Question,
    way: Way,
    offer: Offer,
    on_demand: int,
    preemptible: int,
    buffer: int | None = None,
) -> Plan | None:
    """Predicts a plan that reaches the error.

    Args:
        question: with the error and the prices.
        way: how it trains.
        offer: of preemptible workers.
        on_demand: how many workers are always there.
        preemptible: how many come and go.
        buffer: K where it is buffered; None: all workers, where it is synchronous.

    Returns:
        The plan, or None if it never reaches the error, or has a buffer outside of
        those of the pilots.
    """
    task = way.task
    # A task counts where its worker is there at its begin and stays until its end.
    away = 1 - (1 - offer.away) * offer.share_finished(task)
    if preemptible and not on_demand and away >= 1:
        return None
    workers = on_demand + preemptible
    active = active_workers(
        on_demand, preemptible, away if preemptible else 0.0, together=offer.together
    )
    if way.protocol == "synchronous":
        full, some = active.full, 1 - active.idle
        slowest = mean_slowest(way.task_seconds, workers)
        wait = way.round_deadline
        each = (full * slowest + (some - full) * wait + active.idle * wait) / some
        inverse, count, size = active.inverse, active.mean, workers
    else:
        size = buffer or 1
        rate = (on_demand + preemptible * (1 - away)) / task
        each, inverse, count = size / rate, 1 / size, float(size)
        # Staleness changes with the buffer, so that no other one is extrapolated to.
        low, high = way.model.inverse_low, way.model.inverse_high
        if not 0.99 * low <= inverse <= 1.01 * high:
            return None
    versions = way.model.versions_to(question.error, inverse)
    if versions is None:
        return None
    seconds = versions * each
    hourly = on_demand * question.on_demand_price
    hourly += preemptible * (1 - offer.away) * offer.price
    return Plan(
        way=way,
        offer=offer,
        on_demand=on_demand,
        preemptible=preemptible,
        buffer=size,
        versions=versions,
        error=way.model.error(versions, inverse),
        inverse=inverse,
        tasks=versions * count,
        seconds=seconds,
        cost=seconds / HOUR * hourly,
    )


def all_plans(
    question: Question, ways: Sequence[Way], offers: Sequence[Offer], most: int
) -> list[Plan]:
    """Returns all plans with up to ``most`` workers that reach the error.

    Those on demand alone come once for each way and size, since no offer changes them.
    """
    found: list[Plan | None] = []
    for way in ways:
        for workers in range(1, most + 1):
            for preemptible in range(workers + 1):
                for offer in offers if preemptible else offers[:1]:
                    found += [
                        plan_of(
                            question, way, offer, workers - preemptible, preemptible, k
                        )
                        for k in _buffers(way, workers)
                    ]
    return [plan for plan in found if plan is not None]


def cheapest(plans: Iterable[Plan], question: Question) -> Plan | None:
    """Returns the cheapest plan within deadline and budget; of equal ones the soonest.

    Where only a budget is given, the soonest one.
    """
    return next(iter(question.order(plans)), None)


def frontier(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans that no other beats in both time and cost, soonest first.

    Numbers that differ by rounding alone are equal, so the processor does not choose.
    """
    found, least = list[Plan](), math.inf
    for plan in sorted(plans, key=_seconds_and_cost):
        _, cost = _seconds_and_cost(plan)
        if cost < least:
            found.append(plan)
            least = cost
    return found


def _seconds_and_cost(plan: Plan) -> tuple[float, float]:
    return float(f"{plan.seconds:.9e}"), float(f"{plan.cost:.9e}")


def on_demand_only(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans without preemptible workers."""
    return [plan for plan in plans if not plan.preemptible]


def with_preemptible(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans with preemptible workers."""
    return [plan for plan in plans if plan.preemptible]


def half_and_half(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans with as many preemptible workers as on-demand ones."""
    return [plan for plan in plans if plan.preemptible == plan.on_demand]


def most_saved(plan: Plan, offers: Iterable[Offer]) -> float:
    """Returns the largest share of a plan's cost that preemptible workers could save.

    They would do the plan's tasks without ever waiting, at the best of the offers. What
    they are paid for tasks that they do not finish is counted.
    """
    task = plan.way.task
    finished = max(
        offer.share_finished(task) / offer.price for offer in offers
    )  # per cost
    least = plan.tasks * task / HOUR / finished if finished else math.inf
    return max(0.0, 1 - least / plan.cost)


def uniform_share(versions: int, round_seconds: Seconds, deadline: Seconds) -> float:
    """Returns F(b*) = J R(n) / θ, the share of time that workers must be there.

    Args:
        versions: J.
        round_seconds: R(n).
        deadline: θ.

    Returns:
        The share; above 1, no bid keeps the deadline.
    """
    return versions * round_seconds / deadline


def _buffers(way: Way, workers: int) -> list[int | None]:
    """Returns the sizes of a version to try: powers of two up to the workers."""
    if way.protocol == "synchronous":
        return [None]
    return [2**power for power in range(workers.bit_length())]
