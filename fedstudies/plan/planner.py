"""From a federation and prices to a plan: pilots, search, checks."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedcore.errors import ConfigError
from fedcore.planning.volatile_workers import (
    Plan,
    Question,
    Way,
    all_plans,
    cheapest,
    frontier,
    half_and_half,
    lower_share,
    on_demand_only,
    plain,
    uniform_share,
    with_preemptible,
)
from fedcore.typing import Seconds
from fedrun import units
from fedstudies.frame import Progress
from fedstudies.plan.check import Check
from fedstudies.plan.goal import Target
from fedstudies.plan.measure import Federation, PilotRuns, ways_of
from fedstudies.plan.outcome import (
    CHOICE,
    HALF,
    ON_DEMAND,
    PLAIN,
    PlanOutcome,
)
from fedstudies.plan.pilots import Measured, read_pilot
from fedstudies.prices.price_file import PricesConfig
from fedstudies.statistics import compare_seeds

ATTEMPTS = 6  # plans that are checked beside the baselines
GOOD_FIT = 0.9  # R² below which the fit is doubted
FAR = 1.5  # the ratio of simulated and predicted time from which on that is doubted
PATIENCE = 3.0  # without a deadline, a run is checked up to this many times its time


@dataclass(kw_only=True)
class Planner:
    """The steps of planning; each of them yields its progress."""

    federation: Federation
    target: Target
    question: Question
    prices: PricesConfig
    most: int
    runs: PilotRuns
    journals: Sequence[Path]
    """Folders of real runs, which replace the simulated pilots."""
    checks: int
    """Preemption seeds of each check."""
    ways: list[Way] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    is_lowest: bool = False
    """Whether the plans are of the lowest limits that the pilots leave possible."""
    check: Check | None = None
    tried: list[Check] = field(default_factory=list)
    baselines: list[Check] = field(default_factory=list)

    def measure(self) -> Generator[Progress]:
        """Simulates or reads the pilots, and fits the error models."""
        found: list[Measured] = []
        for each in self.journals:
            found.append(read_pilot(each))
            yield Progress(1, str(each))
        if not self.journals:
            for ended in self.runs.simulate():
                yield Progress(ended, "pilot")
            found = self.runs.found
        self.ways, self.refused = ways_of(found, self.target)

    def search(self) -> None:
        """Predicts all plans.

        Where the best fit has none that keeps the deadline, the plans are predicted
        with the lowest limits of the error that the pilots leave possible.

        Raises:
            ConfigError: no number of workers reaches the target.
        """
        self.plans = self._plans(self.ways)
        if cheapest(self.plans, self.question) is None:
            ways = [way._replace(model=way.lowest) for way in self.ways]
            plans = self._plans(ways)
            if plans:
                self.plans, self.is_lowest = plans, True
        if not self.plans:
            floor = min(way.lowest.floor(1 / self.most) for way in self.ways)
            raise ConfigError(
                f"--target {self.target}: {self.most} workers come to an error of "
                f"{floor:.3g} at best by the fitted model, and the target is an error "
                f"of {self.target.error:.3g}; make the target easier, the pilots "
                "longer, or --workers larger"
            )

    def _plans(self, ways: Sequence[Way]) -> list[Plan]:
        offers = self.prices.preemptible.offers()
        return all_plans(self.question, ways, offers, self.most)

    def examine(self) -> Generator[Progress]:
        """Simulates plans and the baselines, and takes the best one that holds.

        The plan that is predicted to be the best one comes first. If it does not hold,
        the others of the frontier are halved again and again: one that holds makes
        way for cheaper ones, and one that does not for sooner ones.
        """
        checked: list[Check] = []
        left, place = self.question.order(self.plans), 0
        while left and len(checked) < ATTEMPTS:
            name = f"plan {len(checked) + 1}"
            checked.append((yield from self._simulate(name, left[place], checked)))
            holds = self._holds(checked[-1])
            left = left[:place] if holds else left[place + 1 :]
            place = len(left) // 2
        usual = plain(self.plans)
        baselines = {ON_DEMAND: on_demand_only(usual), HALF: half_and_half(usual)}
        if not all(each.plan.is_plain for each in checked):
            baselines[PLAIN] = usual
        for name, some in baselines.items():
            plan = cheapest(some, self.question)
            if plan is not None:
                check = yield from self._simulate(name, plan, checked)
                self.baselines.append(check)
        # What is predicted to be the best comes first, and stays without good reason.
        best: Check | None = None
        for each in filter(self._holds, [*reversed(checked), *self.baselines]):
            if best is None or self._is_clearly_better(each, best):
                best = each
        if best is not None:
            self.check = replace(best, name=CHOICE)
        others = [each for each in checked if each.plan != self.chosen]
        self.tried = [
            replace(each, name=f"tried {number}")
            for number, each in enumerate(others, start=1)
        ]

    @property
    def expected(self) -> int:
        """How many plans are simulated if the first one holds: it and its baselines."""
        first = next(iter(self.question.order(self.plans)), None)
        return 3 if first is None or first.is_plain else 4

    @property
    def chosen(self) -> Plan | None:
        """The plan that is recommended."""
        return None if self.check is None else self.check.plan

    def _holds(self, check: Check) -> bool:
        budget = self.question.budget
        return check.holds and (budget is None or check.cost <= budget)

    def _is_clearly_better(self, one: Check, other: Check) -> bool:
        """Returns whether a plan is surely cheaper, or sooner if that counts."""
        if self.question.seeks_soonest:
            found = compare_seeds(one.seconds, other.seconds).difference
        else:
            found = compare_seeds(one.costs, other.costs).difference
        return found.half is not None and found.mean + found.half < 0

    def _simulate(
        self, name: str, plan: Plan, checked: Sequence[Check]
    ) -> Generator[Progress, None, Check]:
        """Simulates a plan with all seeds, unless that was done; returns its check."""
        for known in checked:
            if known.plan == plan:
                yield Progress(self.checks, name)
                return replace(known, name=name)
        limit = self.question.deadline or PATIENCE * plan.seconds
        first = self.federation.config.seed + 1000  # not those of the pilots
        seeds = range(first, first + self.checks)
        check = Check(name=name, plan=plan, limit=limit, seeds=seeds)
        for ended in check.simulate(
            self.federation, self.target, self.question.on_demand_price
        ):
            yield Progress(ended, name)
        return check

    def outcome(self) -> PlanOutcome:
        """Returns the plans found so far, with the check of the best one and doubts."""
        return PlanOutcome(
            app=self.federation.app,
            target=self.target,
            question=self.question,
            prices=self.prices,
            ways=self.ways,
            plans=frontier(self.plans),
            check=self.check,
            rival=cheapest(with_preemptible(self.plans), self.question),
            tried=self.tried,
            baselines=self.baselines,
            doubts=[*self.refused, *self._doubts()],
        )

    def _doubts(self) -> list[str]:
        """Returns what the pilots cannot tell of the choice, in sentences."""
        found = []
        seeds = self.runs.seeds
        source = (
            f"are {len(self.journals)} journals"
            if self.journals
            else f"used seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        )
        found.append(f"The pilots {source}; the checks have seeds of their own.")
        if self.is_lowest:
            found.append(
                "By the best fit to the pilots no plan does it; all predictions assume "
                "the lowest limit of the error that fits them about as well."
            )
        if self.check is None:
            return found
        plan = self.check.plan
        model = plan.way.model
        if self.tried:
            found.append(
                "Several plans were simulated over the same seeds and the best one was "
                "taken: over other seeds it may do a little worse."
            )
        found.append(
            f"The error model explains {model.r_squared:.1%} of the variance of the "
            "pilots' errors that it is fitted to."
        )
        if model.r_squared < GOOD_FIT:
            found.append("That is little: trust the checks rather than predictions.")
        if plan.versions > model.versions:
            found.append(
                f"The plan has {plan.versions:,} versions and the longest pilot "
                f"{model.versions:,}: the error beyond is extrapolated, to a limit of "
                f"{model.limit:.3g}; as low as {plan.way.lowest.limit:.3g} is possible."
            )
        if not model.inverse_low * 0.99 <= plan.inverse <= model.inverse_high * 1.01:
            low, high = 1 / model.inverse_high, 1 / model.inverse_low
            found.append(
                f"The pilots had {low:.3g} to {high:.3g} updates in a version, and the "
                f"plan has {1 / plan.inverse:.3g} (harmonic means): its error is "
                "extrapolated."
            )
        if plan.growth is not None:
            found.append(
                "No pilot had a number of workers that grows: the error follows from "
                "that of constant numbers."
            )
        if plan.way.protocol == "buffered":
            found.append(
                "The staleness of the plan's updates is taken to be that of the pilots."
            )
        found += self._doubts_of_time(self.check)
        if plan.preemptible:
            found += self._doubts_of_presence(plan)
        return found

    def _doubts_of_time(self, check: Check) -> list[str]:
        """Returns a doubt where simulated and predicted times are far apart."""
        ratio = check.mean_seconds / check.plan.seconds
        if 1 / FAR <= ratio <= FAR:
            return []
        why = (
            "; the predictions have the times of the journals and the checks those of "
            "simulate in the config, which should describe the same workers"
            if self.journals
            else ""
        )
        return [
            f"The simulated runs took {ratio:.2g} times as long as predicted: trust "
            f"what was simulated{why}."
        ]

    def _doubts_of_presence(self, plan: Plan) -> list[str]:
        offer = plan.groups[0].offer
        found = []
        if offer.away and offer.up > plan.seconds:
            found.append(
                f"A worker stays {units.in_seconds(offer.up)} on average, longer than "
                "the run: who is there at the beginning decides, and seeds differ."
            )
        if offer.away and not offer.together:
            found.append(
                "Workers are assumed to leave independently; real preemptions often "
                "come together."
            )
        if offer.together and not plan.on_demand and self.question.deadline:
            found.append(self._formula(plan, self.question.deadline))
        return found

    def _formula(self, plan: Plan, deadline: Seconds) -> str:
        """Returns the bids that the formulas give for a plan, in a sentence."""
        bid_for, first = self.prices.preemptible.bid_for, plan.groups[0]
        in_rounds = plan.way.protocol == "synchronous"
        # Rounds are made while the highest bid is enough; a buffer fills with all.
        there = sum(group.there for group in plan.groups) / plan.preemptible
        each = plan.seconds * (1 - first.offer.away if in_rounds else there)
        share = uniform_share(plan.versions, each / plan.versions, deadline)
        bid = bid_for(share)
        if len(plan.groups) < 2 or not in_rounds:
            gives = "no bid keeps them" if bid is None else f"the bid would be {bid:g}"
            return (
                "The formula of the uniform bid, which counts no lost tasks, asks for "
                f"workers that are there for {share:.0%} of the time; {gives}."
            )
        inverse = plan.way.model.inverse_to(self.question.error, plan.versions)
        lower = lower_share(share, first.workers, plan.workers, inverse)
        lower = min(max(0.0, lower), share)
        bids = (bid, bid_for(lower) if lower else None)
        one, other = ("none" if found is None else f"{found:g}" for found in bids)
        return (
            "The formulas of two bids, which count no lost tasks, ask for "
            f"{units.amount(first.workers, 'worker')} there for {share:.0%} of the "
            f"time and the others for {lower:.0%}; the bids would be {one} and {other}."
        )
