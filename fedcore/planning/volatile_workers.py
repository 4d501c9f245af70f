"""Cost and time of volatile workers, and the search for the cheapest plan.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649. A plan says how many workers are on demand and preemptible, at which
bid, and how many versions they make. Its error follows the fitted model
(:mod:`fedcore.planning.error_model`); its time is J E[seconds of a version]; its cost
is what its workers are paid while they are there:

    cost = time (n_od price_od + n_sp (1 - q) price_sp).

Synchronous rounds wait for all workers, or for the deadline of the round where one is
away: R = P(all) E[slowest] + P(not all) D, and a round without anybody adds D. Nobody
waits for those who are outbid while others are not. Buffered versions take K tasks of
the workers that are there on average, and 1/y = 1/K.

**Bids.** The optimal uniform bid is b* = F^-1(J R(n) / θ): the work needs J R(n)
seconds, workers are there for a share F(b) of them, and cost rises with b, so that the
lowest bid that keeps the deadline θ is the best. With two bids, n1 of n workers bid b1
and the others b2 < b1: b1* = b*, and F(b2*) = F(b1*) (1/n1 - Q) / (1/n1 - 1/n), which
makes E[1/y] the Q that J versions allow.

**Growth.** n_j = ⌈n_0 η^(j-1)⌉ workers make version j, up to all: the noise of early
versions is forgotten, by ρ in each later one. A worker comes at any point of a round,
which waits for it, so that each new number costs half a task.

**Restarts.** A worker that comes is paid for a restart, in which it computes nothing. A
task counts if the stay of its worker lasts for a restart and the task, e^-((r + t)/up)
of all time in stays, as they have no memory. The server has the model, so there are no
checkpoints to pay for.

The bids and the restart are derived here; growth is quoted from memory. The theorems
themselves were not within reach.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

from fedcore.errors import ConfigError
from fedcore.planning.active_workers import (
    distribution,
    distribution_of_bids,
    mean_slowest,
    moments_of,
)
from fedcore.planning.error_model import ErrorModel
from fedcore.typing import Seconds

Protocol = Literal["synchronous", "buffered"]
HOUR = 3600.0
ROUND_SLACK = 1.05
"""The deadline of a round, as a multiple of the slowest task that was measured."""
WAITING_SLACK = 2.0
"""The least one, as a multiple of a mean task, where rounds wait for who comes."""
FACTORS = (1.01, 1.02, 1.04, 1.08, 1.16)
"""η that are tried, by which the number of workers grows from version to version."""


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

    def inside(self, other: "Offer") -> tuple[Seconds, Seconds]:
        """Returns the mean times up and down within a stay at a higher bid."""
        leaves = 1 / self.up - 1 / other.up  # while the higher bid is still enough
        return (1 / leaves if leaves > 0 else math.inf), self.down

    def returns_within(self, seconds: Seconds) -> float:
        """Returns the mean number of times that a worker comes back within a time."""
        if math.isinf(self.up) or not self.down:
            return 0.0
        return seconds / (self.up + self.down)

    def share_finished(self, task: Seconds) -> float:
        """Returns the share of tasks of this length that end before a worker leaves."""
        return math.exp(-task / self.up)


class Group(NamedTuple):
    """Preemptible workers under one offer."""

    offer: Offer
    workers: int

    @property
    def there(self) -> float:
        """The mean number of them that are there, and paid."""
        return self.workers * (1 - self.offer.away)


class Growth(NamedTuple):
    """A number of workers that grows from version to version, up to all of them."""

    first: int
    """n_0, the number that makes the first version."""
    factor: float
    """η, by which it grows from version to version."""

    def stages(self, most: int) -> list[tuple[int, int]]:
        """Returns the numbers below ``most``, with how many versions each makes.

        Raises:
            ConfigError: it never gets to ``most``.
        """
        if self.factor <= 1 and self.first < most:
            raise ConfigError(
                f"growth: expected a factor above 1, got {self.factor:g}, which never "
                f"makes {most} workers of {self.first}"
            )
        found, version = Counter[int](), 0
        while (workers := math.ceil(self.first * self.factor**version)) < most:
            found[workers] += 1
            version += 1
        return [*found.items()]


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
    on_demand: int
    groups: tuple[Group, ...]
    """Its preemptible workers, those with the highest bid first."""
    buffer: int
    versions: int
    error: float
    inverse: float
    """E[1/y]."""
    tasks: float
    """Tasks that are finished."""
    seconds: Seconds
    cost: float
    worker_seconds: Seconds
    """The time that is paid, of all workers together."""
    restart: Seconds = 0.0
    """The time for which a worker that comes computes nothing."""
    growth: Growth | None = None
    """The growth of its number of workers; None: it is constant."""
    rented: tuple[tuple[Seconds, int], ...] = ()
    """Times, and the numbers of workers from then on; empty: it is constant."""

    @property
    def round_deadline(self) -> Seconds | None:
        """The deadline of its rounds; None: they wait for all."""
        if self.way.protocol != "synchronous" or not (self.groups or self.growth):
            return None
        if self.growth or self.restart:
            return max(self.way.round_deadline, WAITING_SLACK * self.way.task)
        return self.way.round_deadline

    @property
    def preemptible(self) -> int:
        """The number of workers that come and go."""
        return sum(group.workers for group in self.groups)

    @property
    def workers(self) -> int:
        """All workers, on demand first, then from the highest bid on."""
        return self.on_demand + self.preemptible

    @property
    def bid(self) -> float | None:
        """The highest bid of its preemptible workers; None: nobody bids."""
        return self.groups[0].offer.bid if self.groups else None

    @property
    def is_plain(self) -> bool:
        """Whether the number of workers is constant, with one bid at most."""
        return self.growth is None and len(self.groups) < 2


class Question(NamedTuple):
    """The planner's question."""

    error: float
    """The error to reach."""
    on_demand_price: float
    """Of a worker for an hour."""
    deadline: Seconds | None = None
    budget: float | None = None
    restart: Seconds = 0.0
    """The time for which a worker that comes is paid, and computes nothing."""

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


class _Pace(NamedTuple):
    """The versions that certain workers make: their time, noise and cost."""

    seconds: Seconds
    """The mean time of a version."""
    inverse: float
    """E[1/y], where y workers deliver to a version."""
    tasks: float
    """The tasks that a version is made of, on average."""
    there: float
    """Workers that are there, and paid, on average."""
    hourly: float
    """Paid for an hour."""


class _Stage(NamedTuple):
    """Versions that are made by the same number of workers."""

    workers: int
    pace: _Pace
    versions: int
    error: float
    """At its end."""


class Predictor:
    """Predicts plans of one way to train."""

    def __init__(self, question: Question, way: Way) -> None:
        """Takes the error and the prices, and how it trains."""
        self._question, self._way = question, way
        self._task = way.task
        self._slowest: dict[int, Seconds] = {}
        self._paces: dict[object, _Pace | None] = {}

    def plan(
        self,
        on_demand: int,
        groups: tuple[Group, ...] = (),
        buffer: int | None = None,
        growth: Growth | None = None,
    ) -> Plan | None:
        """Predicts a plan that reaches the error.

        Args:
            on_demand: how many workers are always there.
            groups: the preemptible ones, those with the highest bid first.
            buffer: K where it is buffered; None: all workers, where it is synchronous.
            growth: how their number grows, of synchronous rounds; None: not at all.

        Returns:
            The plan, or None if it never reaches the error, does so before all of its
            workers have come, needs some sooner than they can start, or has a buffer
            outside of those of the pilots.

        Raises:
            ConfigError: there are several groups, and not with falling bids; or the
                number never grows to all of them.
        """
        stages = self._stages(on_demand, groups, buffer, growth)
        if stages is None:
            return None
        restart, last = self._question.restart, stages[-1]
        is_round = self._way.protocol == "synchronous"
        seconds, cost, paid, before = 0.0, 0.0, 0.0, stages[0].pace
        rented = list[tuple[Seconds, int]]()
        for workers, pace, versions, _ in stages:
            if rented and seconds < restart:
                return None  # those who come would not be ready
            spent = versions * pace.seconds
            early = restart if rented else 0.0
            rented.append((seconds - early, workers))
            if len(rented) > 1:  # those who come are paid while they start
                cost += early / HOUR * (pace.hourly - before.hourly)
                paid += early * (pace.there - before.there)
                spent += self._task / 2
            seconds += spent
            cost += spent / HOUR * pace.hourly
            paid += spent * pace.there
            before = pace
        return Plan(
            way=self._way,
            on_demand=on_demand,
            groups=groups,
            buffer=last.workers if is_round else buffer or 1,
            versions=sum(stage.versions for stage in stages),
            error=last.error,
            inverse=last.pace.inverse,
            tasks=sum(stage.versions * stage.pace.tasks for stage in stages),
            seconds=seconds,
            cost=cost,
            worker_seconds=paid,
            restart=restart,
            growth=growth if len(stages) > 1 else None,
            rented=tuple(rented) if len(stages) > 1 else (),
        )

    def _stages(
        self,
        on_demand: int,
        groups: tuple[Group, ...],
        buffer: int | None,
        growth: Growth | None,
    ) -> list[_Stage] | None:
        """Returns the stages to the error; None where :meth:`plan` returns None."""
        target, model = self._question.error, self._way.model
        workers = on_demand + sum(group.workers for group in groups)
        found = list[_Stage]()
        early = [] if growth is None else growth.stages(workers)
        for count, given in [*early, (workers, None)]:
            pace = self._pace(*_first(count, on_demand, groups), buffer)
            if pace is None:
                return None
            enough = model.versions_to(target, pace.inverse)
            if given is None:
                versions = enough
            else:
                versions = given if enough is None or enough > given else None
            if versions is None:
                return None
            error = model.error(versions, pace.inverse)
            found.append(_Stage(count, pace, versions, error))
            model = model.after(versions, pace.inverse)
        return found

    def _pace(
        self, on_demand: int, groups: tuple[Group, ...], buffer: int | None
    ) -> _Pace | None:
        known = (on_demand, groups, buffer)
        if known not in self._paces:
            self._paces[known] = self._find_pace(*known)
        return self._paces[known]

    def _find_pace(
        self, on_demand: int, groups: tuple[Group, ...], buffer: int | None
    ) -> _Pace | None:
        question, way, task = self._question, self._way, self._task
        # A task counts where its worker is ready at its begin and stays until its end.
        away = [
            1 - (1 - offer.away) * offer.share_finished(question.restart + task)
            for offer, _ in groups
        ]
        counts = [group.workers for group in groups]
        if len(groups) > 1 and not all(group.offer.together for group in groups):
            raise ConfigError("groups: expected one, or several bids in one market")
        if groups and not on_demand and away[0] >= 1:
            return None
        if way.protocol == "synchronous":
            together = bool(groups) and groups[0].offer.together
            active = moments_of(
                distribution_of_bids(on_demand, counts, away)
                if together
                else distribution(on_demand, sum(counts), away[0] if away else 0.0)
            )
            # Nobody waits for those who are outbid while others are not.
            full = 1 - away[0] if together else active.full
            some = 1 - active.idle
            slowest = self._mean_slowest(on_demand + sum(counts))
            wait = way.round_deadline
            each = (full * slowest + (some - full) * wait + active.idle * wait) / some
            inverse, tasks = active.inverse, active.mean
        else:
            rate = sum(n * (1 - q) for n, q in zip(counts, away, strict=True))
            size = buffer or 1
            each = size / ((on_demand + rate) / task)
            inverse, tasks = 1 / size, float(size)
            # Staleness changes with the buffer: no other one is extrapolated to.
            low, high = way.model.inverse_low, way.model.inverse_high
            if not 0.99 * low <= inverse <= 1.01 * high:
                return None
        hourly = on_demand * question.on_demand_price
        hourly += sum(group.there * group.offer.price for group in groups)
        there = on_demand + sum(group.there for group in groups)
        return _Pace(each, inverse, tasks, there, hourly)

    def _mean_slowest(self, workers: int) -> Seconds:
        if workers not in self._slowest:
            self._slowest[workers] = mean_slowest(self._way.task_seconds, workers)
        return self._slowest[workers]


def _first(
    count: int, on_demand: int, groups: tuple[Group, ...]
) -> tuple[int, tuple[Group, ...]]:
    """Returns the first of the workers: those on demand, then the highest bids."""
    left, found = count - min(count, on_demand), list[Group]()
    for group in groups:
        if left:
            found.append(group._replace(workers=min(left, group.workers)))
            left -= found[-1].workers
    return min(count, on_demand), tuple(found)


def all_plans(
    question: Question, ways: Sequence[Way], offers: Sequence[Offer], most: int
) -> list[Plan]:
    """Returns all plans with up to ``most`` workers that reach the error.

    Those on demand alone come once for each way and size, since no offer changes them.
    Numbers that grow have one bid.
    """
    found: list[Plan | None] = []
    for way in ways:
        predictor = Predictor(question, way)
        for workers in range(1, most + 1):
            for preemptible in range(workers + 1):
                for groups in _groups(offers, preemptible):
                    on_demand = workers - preemptible
                    found += [
                        predictor.plan(on_demand, groups, k)
                        for k in _buffers(way, workers)
                    ]
                    if way.protocol == "synchronous" and len(groups) < 2:
                        found += [
                            predictor.plan(on_demand, groups, growth=Growth(first, by))
                            for first in range(1, workers)
                            for by in FACTORS
                        ]
    return [plan for plan in found if plan is not None]


def _groups(offers: Sequence[Offer], preemptible: int) -> Iterator[tuple[Group, ...]]:
    """Yields the ways to rent this many workers: at one offer, or two bids."""
    if not preemptible:
        yield ()
        return
    for offer in offers:
        yield (Group(offer, preemptible),)
    bids = [offer for offer in offers if offer.together]  # from the lowest on
    for low, high in combinations(bids, 2):
        for few in range(1, preemptible):
            yield Group(high, few), Group(low, preemptible - few)


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


def plain(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans with a constant number of workers and one bid at most."""
    return [plan for plan in plans if plan.is_plain]


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
        offer.share_finished(plan.restart + task) / offer.price for offer in offers
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


def lower_share(share: float, few: int, workers: int, inverse: float) -> float:
    """Returns F(b2*) = F(b1*) (1/n1 - Q) / (1/n1 - 1/n), the share of the lower bid.

    It follows from E[1/y | y >= 1] = Q, which is (F(b2)/n + (F(b1) - F(b2))/n1) / F(b1)
    where nobody is on demand.

    Args:
        share: F(b1*), that of the higher bid.
        few: n1, how many workers make the higher bid.
        workers: n, all of them.
        inverse: Q, the E[1/y] that the versions allow.

    Returns:
        The share; 0 or less, n1 workers are enough; above F(b1*), n are not.
    """
    return share * (1 / few - inverse) / (1 / few - 1 / workers)


def _buffers(way: Way, workers: int) -> list[int | None]:
    """Returns the sizes of a version to try: powers of two up to the workers."""
    if way.protocol == "synchronous":
        return [None]
    return [2**power for power in range(workers.bit_length())]
