"""The plan as one self-contained page: frontier, checks, and what is unknown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedcore.planning.volatile_workers import Plan
from fedrun import units
from fedstudies.intro import intro
from fedstudies.plan.check import Check
from fedstudies.plan.outcome import PlanOutcome, workers_in_words
from fedstudies.tables import Cells
from fedview.report import theme
from fedview.report.page import Section, note, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

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
    (theme.GREEN, "circle-open", 21),
)
_CHECKS = (
    "All plans are simulated with the same preemption seeds; the pilots had others. A "
    "worker is paid while it is there, until the target is reached."
)


def plan_page(outcome: PlanOutcome) -> str:
    """Returns the plan as one HTML page."""
    title = f"A plan for {outcome.app}"
    limits = [f"target {outcome.target}"]
    if outcome.question.deadline is not None:
        limits.append(f"deadline {units.in_seconds(outcome.question.deadline)}")
    if outcome.question.budget is not None:
        limits.append(f"budget {outcome.money(outcome.question.budget)}")
    top = intro(
        title,
        ", ".join(limits),
        outcome.verdict,
        outcome.doubts,
        is_warning=outcome.choice is None,
    )
    drawn = plot(frontier_figure(outcome), "cost over time of the plans")
    more = "".join(note(text(f"{line}.")) for line in outcome.sentences()[1:])
    return page(
        title,
        top,
        [
            Section(
                "frontier",
                "Cost and time",
                text(_FRONTIER),
                [drawn, frontier_cells(outcome).on_page()],
            ),
            Section(
                "checks",
                "Predicted and simulated",
                text(_CHECKS),
                [check_cells(outcome).on_page(), more],
            ),
        ],
    )


def frontier_figure(outcome: PlanOutcome) -> "Figure":
    """Draws cost over time: the frontier, and the means of the checks."""
    from plotly.graph_objects import Figure, Scatter

    longest = max((plan.seconds for plan in outcome.plans), default=1.0)
    unit = units.time_unit(longest)
    figure = Figure(
        Scatter(
            x=[plan.seconds / unit.size for plan in outcome.plans],
            y=[plan.cost for plan in outcome.plans],
            text=[workers_in_words(plan) for plan in outcome.plans],
            name="predicted",
            mode="lines+markers",
            line={"color": theme.BLUE, "width": 2},
            hovertemplate="%{text}<br>%{x:.3g} " + unit.name + ", %{y:.3g}"
            "<extra></extra>",
        )
    )
    own = [] if outcome.check is None else [outcome.check]
    groups = [outcome.tried, *([check] for check in [*outcome.baselines, *own])]
    marks = (*_MARKS[: 1 + len(outcome.baselines)], _MARKS[-1])
    for (colour, symbol, size), checks in zip(marks, groups, strict=False):
        shown = [check for check in checks if check.reached]
        if shown:
            name = "tried" if checks is outcome.tried else shown[0].name
            figure.add_trace(
                Scatter(
                    x=[check.mean_seconds / unit.size for check in shown],
                    y=[check.cost for check in shown],
                    name=name,
                    mode="markers",
                    marker={
                        "color": colour,
                        "size": size,
                        "symbol": symbol,
                        "line": {"width": 2.5, "color": colour},
                    },
                    text=[workers_in_words(check.plan) for check in shown],
                    hovertemplate=f"{name}: %{{text}}<br>%{{x:.3g}} {unit.name}, "
                    "%{y:.3g}<extra></extra>",
                )
            )
    deadline = outcome.question.deadline
    if deadline is not None and deadline <= FAR * longest:
        figure.add_vline(
            x=deadline / unit.size,
            line={"dash": "dot", "width": 1.5, "color": theme.GREY},
            annotation_text="deadline",
        )
    figure.update_xaxes(title_text=unit.name, rangemode="tozero")
    figure.update_yaxes(title_text=outcome.prices.currency, rangemode="tozero")
    return theme.dress(figure, 380)


def frontier_cells(outcome: PlanOutcome) -> Cells:
    """The frontier as a table."""
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
    """The checks as a table."""
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
    """The columns that say which workers plans have."""
    columns: Columns = {
        "on demand": [str(plan.on_demand) for plan in plans],
        "preemptible": [str(plan.preemptible) for plan in plans],
    }
    if outcome.prices.preemptible.quantiles:  # there is a market
        columns["bid"] = ["–" if p.bid is None else f"{p.bid:g}" for p in plans]
    return columns


def _seeds(check: Check, share: float) -> str:
    count = len(check.seconds)
    return f"{round(share * count)} of {count}"


def _cells(columns: Columns) -> Cells:
    rows = [*zip(*columns.values(), strict=True)]
    return Cells([*columns], rows, " " + "n" * (len(columns) - 1))
