"""The result of planning: a recommendation, the frontier and the checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fedcore.planning.volatile_workers import Plan, Question, Way, most_saved
from fedrun import units
from fedrun.cli.plain_json import finite
from fedstudies.curves import draw_line, figure_of
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.plan.check import Check
from fedstudies.plan.goal import Target
from fedstudies.prices.price_file import PricesConfig
from fedstudies.statistics import ALPHA, compare_seeds
from fedstudies.tables import Cells
from fedview.report import theme
from fedview.results import Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ON_DEMAND, HALF, CHOICE = "all on demand", "half and half", "recommended"
PLAIN = "constant number, one bid"
Columns = dict[str, list[str]]
FAR = 2.0  # times the latest plan: a deadline beyond would flatten the drawing
_FRONTIER = (
    "Each point is a plan that no other one beats in both time and cost, as the fitted "
    "model predicts them. Crosses, squares, diamonds and the ring of the recommended "
    "plan are means of simulated runs."
)
# Of what was tried, the baselines and the recommended plan: around one another, so that
# all are seen where plans are equal.
_MARKS = (
    (theme.GREY, "x-thin", 8),
    (theme.VERMILION, "square-open", 12),
    (theme.ORANGE, "diamond-open", 15),
    (theme.PINK, "hexagon-open", 18),
    (theme.GREEN, "circle-open", 21),
)
_CHECKS = (
    "All plans are simulated with the same preemption seeds; the pilots had others. A "
    "worker is paid while it is there, until the target is reached."
)
LITTLE = {ON_DEMAND: 0.4, HALF: 0.1}  # a saving that needs a reason


@dataclass(frozen=True, kw_only=True)
class PlanOutcome(Outcome):
    """The workers to rent, their cost, and the doubts."""

    app: str
    target: Target
    question: Question
    prices: PricesConfig
    ways: Sequence[Way]
    plans: Sequence[Plan]
    """The frontier: the soonest first, each later one cheaper."""
    check: Check | None
    """Of the recommended plan; None: no plan passed its check."""
    rival: Plan | None
    """The cheapest plan with preemptible workers that is predicted to be in time."""
    tried: Sequence[Check]
    """The checks of other plans, which did not hold or were no better."""
    baselines: Sequence[Check]
    doubts: Sequence[str]
    """What should be known before the result is used."""

    @property
    def choice(self) -> Plan | None:
        """The recommended plan."""
        return None if self.check is None else self.check.plan

    @property
    def recommendation(self) -> dict[str, Any]:
        """The choice as plain data; empty if there is none."""
        return {} if self.choice is None else as_row(self.choice)

    @property
    def frontier(self) -> Table:
        """The frontier as columns."""
        return _columns([as_row(plan) for plan in self.plans])

    @property
    def checks(self) -> Table:
        """The checks as columns: predicted and simulated, a row for each plan."""
        return _columns([check_row(check) for check in self.all_checks])

    @property
    def all_checks(self) -> list[Check]:
        """The choice, the baselines, and what was tried before."""
        own = [] if self.check is None else [self.check]
        return [*own, *self.baselines, *self.tried]

    @property
    def verdict(self) -> str:
        """The result in a sentence, without capital and full stop."""
        if self.check is None:
            return f"no plan reaches {self.target} {self._limits()}"
        plan, found = self.check.plan, self.check
        return (
            f"rent {workers_in_words(plan)} and train {training_in_words(plan.way)}"
            f"{_buffer_in_words(plan)}: {self.target} within "
            f"{units.in_seconds(found.mean_seconds)} for "
            f"{self._cost(found)} on average over "
            f"{units.amount(len(found.seconds), 'simulated seed')}, "
            f"{self._count_kept(found)}, which makes sure of "
            f"{found.surely_in_time:.0%} of all seeds"
        )

    def sentences(self) -> list[str]:
        """Returns the recommendation and its baselines; sentences lack a full stop."""
        lines = [self.verdict]
        if self.check is not None:
            plan = self.check.plan
            lines.append(
                f"predicted: {units.amount(plan.versions, 'version')}, "
                f"{units.in_seconds(plan.seconds)}, {self.money(plan.cost)}"
            )
            if plan.growth is not None:
                lines.append(arrivals_in_words(plan))
            names = (*LITTLE, *([] if plan.is_plain else [PLAIN]))
            lines += [self._beside(self.check, name) for name in names]
            if not plan.preemptible:
                lines.append(self._why_none(plan))
        if self.tried:
            others = (
                f"{workers_in_words(check.plan)} ({self._count_kept(check)}, "
                f"{self._cost(check)})"
                for check in self.tried
            )
            lines.append(f"also simulated: {'; '.join(others)}")
        return lines

    def _beside(self, found: Check, name: str) -> str:
        """Returns the saving against a baseline; if it is little, why."""
        other = next((check for check in self.baselines if check.name == name), None)
        if other is None:
            return f"{name}: no plan is predicted to do it {self._limits()}"
        words = (
            f"{name} ({workers_in_words(other.plan)}) costs {self._cost(other)}, "
            f"{self._count_kept(other)}"
        )
        if other.plan == found.plan:
            return f"{words}, and is the recommended plan"
        saved = 1 - found.cost / other.cost if other.cost else 0.0
        beside = compare_seeds(found.costs, other.costs)
        half = beside.difference.half
        around = f" ± {half / other.cost:.0%}" if half and other.cost else ""
        more_or_less = "less" if saved >= 0 else "more"
        words += f": the recommended plan costs {abs(saved):.0%}{around} {more_or_less}"
        if beside.p is None:
            words += ", which may be chance; more --checks may tell"
        elif beside.p >= ALPHA:
            words += (
                f", which may be chance (p = {beside.p:.2g}); more --checks may tell"
            )
        if saved >= LITTLE.get(name, 0.0) or self.question.seeks_soonest:
            return words
        hours = found.plan.worker_seconds / other.plan.worker_seconds
        return (
            f"{words}; preemptible workers {self._most_saved(other.plan)}, and the "
            f"plan is predicted to need {hours:.2f} times as many hours of workers"
        )

    def _why_none(self, plan: Plan) -> str:
        """Returns why no preemptible worker is rented."""
        if self.question.seeks_soonest:
            words, what = "preemptible workers make it no sooner", "soonest"
        else:
            words = "preemptible workers are predicted to save nothing: they "
            words += self._most_saved(plan)
            what = "cheapest"
        if self.rival is None:
            return f"{words}, and no plan with them is predicted to do it"
        words += (
            f", and the {what} plan with them is predicted to take "
            f"{units.in_seconds(self.rival.seconds)} and {self.money(self.rival.cost)}"
        )
        if any(check.plan.preemptible for check in self.tried):
            limit = "late" if self.question.deadline is not None else "not done"
            words += f", but those that were simulated were {limit} or cost more"
        return words

    def _most_saved(self, plan: Plan) -> str:
        most = most_saved(plan, self.prices.preemptible.offers())
        less = f"at most {most:.0%} less" if most else "no less"
        return f"should do the same tasks for {less} at these prices and preemptions"

    def money(self, amount: float) -> str:
        """Returns an amount in the currency of the prices."""
        return f"{units.digits(amount)} {self.prices.currency}"

    def _cost(self, check: Check) -> str:
        """Returns the mean cost of a check, with its 95 % interval."""
        if not check.cost_half:
            return self.money(check.cost)
        around = units.digits(check.cost_half)
        return f"{units.digits(check.cost)} ± {around} {self.prices.currency}"

    def _count_kept(self, check: Check) -> str:
        done = round(check.in_time * len(check.seconds))
        what = "in time" if self.question.deadline is not None else "at the target"
        return f"{done} of {len(check.seconds)} seeds {what}"

    def _limits(self) -> str:
        limits = []
        if self.question.deadline is not None:
            limits.append(f"within {units.in_seconds(self.question.deadline)}")
        if self.question.budget is not None:
            limits.append(f"for {self.money(self.question.budget)}")
        return " and ".join(limits)

    def findings(self) -> Findings:
        """Returns the frontier, the checks, and what to rent."""
        drawn = ("cost over time of the plans", partial(frontier_figure, self))
        limits = [f"target {self.target}"]
        if self.question.deadline is not None:
            limits.append(f"deadline {units.in_seconds(self.question.deadline)}")
        if self.question.budget is not None:
            limits.append(f"budget {self.money(self.question.budget)}")
        return Findings(
            title=f"A plan for {self.app}",
            heading=", ".join(limits),
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=[
                Part(
                    "Cost and time",
                    _FRONTIER,
                    frontier_cells(self),
                    figures=[drawn],
                    anchor="frontier",
                    heading="Cost and time: the frontier",
                ),
                Part(
                    "Predicted and simulated",
                    _CHECKS,
                    check_cells(self),
                    anchor="checks",
                ),
            ],
            doubts=self.doubts,
            sentences=self.sentences()[1:],
            is_warning=self.choice is None,
        )

    def as_json(self) -> dict[str, Any]:
        """Returns all of it as plain data for JSON; infinite numbers are null."""
        return {
            "app": self.app,
            "target": {self.target.metric: self.target.value},
            "deadline": self.question.deadline,
            "budget": self.question.budget,
            "prices": self.prices.model_dump(mode="json"),
            "recommendation": self.recommendation,
            "sentences": self.sentences(),
            "doubts": list(self.doubts),
            "fits": [
                {
                    "protocol": way.protocol,
                    "local_steps": way.local_steps,
                    **way.model._asdict(),
                    "lowest_limit": way.lowest.limit,
                    "bytes_per_update": way.message_bytes,
                }
                for way in self.ways
            ],
            "frontier": [as_row(plan) for plan in self.plans],
            "checks": [
                {
                    **check_row(check),
                    "seconds_by_seed": finite(check.seconds),
                    "cost_by_seed": dict(check.costs),
                }
                for check in self.all_checks
            ],
        }


def as_row(plan: Plan) -> dict[str, Any]:
    """Returns a plan as plain data."""
    return {
        "protocol": plan.way.protocol,
        "on_demand": plan.on_demand,
        "preemptible": plan.preemptible,
        **_beyond_plain(plan),
        "rented": [*map(list, plan.rented)],
        "buffer": plan.buffer,
        "local_steps": plan.way.local_steps,
        "versions": plan.versions,
        "seconds": plan.seconds,
        "cost": plan.cost,
        "error": plan.error,
        "inverse": plan.inverse,
        "bytes": plan.way.message_bytes * plan.tasks,
    }


def _beyond_plain(plan: Plan) -> dict[str, Any]:
    """Returns the bids of a plan and how its number of workers grows."""
    lower = plan.groups[1:]
    return {
        "bid": plan.bid,
        "lower_bid": lower[0].offer.bid if lower else None,
        "at_lower_bid": lower[0].workers if lower else 0,
        "growth": None if plan.growth is None else plan.growth.factor,
    }


def check_row(check: Check) -> dict[str, Any]:
    """Returns a check as plain data."""
    return {
        "plan": check.name,
        "protocol": check.plan.way.protocol,
        "on_demand": check.plan.on_demand,
        "preemptible": check.plan.preemptible,
        **_beyond_plain(check.plan),
        "buffer": check.plan.buffer,
        "local_steps": check.plan.way.local_steps,
        "predicted_seconds": check.plan.seconds,
        "seconds": finite(check.mean_seconds),
        "predicted_cost": check.plan.cost,
        "cost": finite(check.cost),
        "cost_half_width_95": check.cost_half,
        "seeds": len(check.seconds),
        "in_time": check.in_time,
        "surely_in_time": check.surely_in_time if check.seconds else 0.0,
        "reached": check.reached,
    }


def workers_in_words(plan: Plan) -> str:
    """Returns ``2 workers on demand and 6 preemptible ones at a bid of 0.4``."""
    words = []
    if plan.on_demand:
        words.append(f"{units.amount(plan.on_demand, 'worker')} on demand")
    for offer, count in plan.groups:
        kind = f"preemptible worker{'s' * (count > 1)}"
        bid = "" if offer.bid is None else f" at a bid of {offer.bid:g}"
        words.append(f"{count} {kind}{bid}")
    first = "" if plan.growth is None else f" ({plan.growth.first} at first)"
    return " and ".join(words) + first


def arrivals_in_words(plan: Plan) -> str:
    """Returns ``workers: 2 at first, 3 from 5 min 10 s on``."""
    _, first = plan.rented[0]
    later = (
        f"{count} from {units.in_seconds(begin)} on" for begin, count in plan.rented[1:]
    )
    return f"workers: {', '.join([f'{first} at first', *later])}"


def training_in_words(way: Way) -> str:
    """Returns ``in synchronous rounds with 4 local steps``."""
    how = "in synchronous rounds" if way.protocol == "synchronous" else "asynchronously"
    if way.local_steps is None:
        return how
    return f"{how} with {units.amount(way.local_steps, 'local step')}"


def _buffer_in_words(plan: Plan) -> str:
    if plan.way.protocol == "synchronous":
        return ""
    return f" and a buffer of {plan.buffer}"


def _columns(rows: Sequence[dict[str, Any]]) -> Table:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


def frontier_figure(outcome: PlanOutcome) -> "Figure":
    """Draws cost over time: the frontier, and the means of the checks."""
    longest = max((plan.seconds for plan in outcome.plans), default=1.0)
    unit = units.time_unit(longest)
    hover = "%{text}<br>%{x:.3g} " + unit.name + ", %{y:.3g}"
    seconds = [plan.seconds / unit.size for plan in outcome.plans]
    costs = [plan.cost for plan in outcome.plans]
    names = [workers_in_words(plan) for plan in outcome.plans]
    more: dict[str, Any] = {"mode": "lines+markers", "text": names}
    traces = [draw_line("predicted", seconds, costs, hover, theme.BLUE, **more)]
    own = [] if outcome.check is None else [outcome.check]
    groups = [outcome.tried, *([check] for check in [*outcome.baselines, *own])]
    marks = (*_MARKS[: 1 + len(outcome.baselines)], _MARKS[-1])
    for (colour, symbol, size), checks in zip(marks, groups, strict=False):
        shown = [check for check in checks if check.reached]
        if shown:
            name = "tried" if checks is outcome.tried else shown[0].name
            marker = {
                "color": colour,
                "size": size,
                "symbol": symbol,
                "line": {"width": 2.5, "color": colour},
            }
            seconds = [check.mean_seconds / unit.size for check in shown]
            costs = [check.cost for check in shown]
            names = [workers_in_words(check.plan) for check in shown]
            more = {"mode": "markers", "marker": marker, "text": names}
            said = f"{name}: {hover}"
            traces.append(draw_line(name, seconds, costs, said, colour, **more))
    figure = figure_of(traces, unit.name, outcome.prices.currency, 380)
    deadline = outcome.question.deadline
    if deadline is not None and deadline <= FAR * longest:
        figure.add_vline(
            x=deadline / unit.size,
            line={"dash": "dot", "width": 1.5, "color": theme.GREY},
            annotation_text="deadline",
        )
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(rangemode="tozero")
    return figure


def frontier_cells(outcome: PlanOutcome) -> Cells:
    """Returns the frontier as a table."""
    plans = outcome.plans
    columns: Columns = {
        "training": [plan.way.protocol for plan in plans],
        **_workers(outcome, plans),
        "buffer": [str(plan.buffer) for plan in plans],
        "local steps": [str(plan.way.local_steps or "–") for plan in plans],
        "versions": [f"{plan.versions:,}" for plan in plans],
        "time": [units.in_seconds(plan.seconds) for plan in plans],
        outcome.prices.currency: [units.digits(plan.cost) for plan in plans],
    }
    return _cells(columns)


def check_cells(outcome: PlanOutcome) -> Cells:
    """Returns the checks as a table."""
    checks, currency = outcome.all_checks, outcome.prices.currency
    columns: Columns = {
        "plan": [check.name for check in checks],
        **_workers(outcome, [check.plan for check in checks]),
        "predicted time": [units.in_seconds(check.plan.seconds) for check in checks],
        "time": [
            units.in_seconds(check.mean_seconds) if check.reached else "–"
            for check in checks
        ],
        f"predicted {currency}": [units.digits(check.plan.cost) for check in checks],
        currency: [units.digits(check.cost) for check in checks],
        "in time": [_seeds(check, check.in_time) for check in checks],
        "at the target": [_seeds(check, check.reached) for check in checks],
    }
    return _cells(columns)


def _workers(outcome: PlanOutcome, plans: Sequence[Plan]) -> Columns:
    """Returns the columns that say which workers plans have."""
    columns: Columns = {
        "on demand": [str(plan.on_demand) for plan in plans],
        "preemptible": [
            " + ".join(str(group.workers) for group in plan.groups) or "0"
            for plan in plans
        ],
    }
    if outcome.prices.preemptible.quantiles:  # there is a market
        columns["bid"] = [
            " + ".join(f"{group.offer.bid:g}" for group in plan.groups) or "–"
            for plan in plans
        ]
    if any(plan.growth for plan in plans):
        columns["at first"] = [
            str(plan.growth.first if plan.growth else plan.workers) for plan in plans
        ]
    return columns


def _seeds(check: Check, share: float) -> str:
    count = len(check.seconds)
    return f"{round(share * count)} of {count}"


def _cells(columns: Columns) -> Cells:
    rows = [*zip(*columns.values(), strict=True)]
    return Cells([*columns], rows, " " + "n" * (len(columns) - 1))
