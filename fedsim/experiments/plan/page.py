"""The plan as one self-contained page: frontier, checks, and what is unknown."""

from typing import TYPE_CHECKING

from fedrun import units
from fedrun.report import theme
from fedrun.report.page import Section, note, page, plot, text
from fedsim.experiments.intro import intro
from fedsim.experiments.plan.outcome import PlanOutcome, workers_in_words
from fedsim.experiments.terminal import Cells

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_FRONTIER = (
    "Each point is a plan that no other one beats in both time and cost, as the fitted "
    "model predicts them. Crosses are means of simulated runs."
)
_CHECKS = (
    "Each plan is simulated with preemption seeds of its own. A worker is paid while "
    "it is there, until the target is reached."
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
    for colour, check in zip(
        (theme.GREEN, theme.VERMILION, theme.ORANGE, theme.GREY),
        outcome.all_checks,
        strict=False,
    ):
        if check.reached:
            figure.add_trace(
                Scatter(
                    x=[check.mean_seconds / unit.size],
                    y=[check.cost],
                    name=check.name,
                    mode="markers",
                    marker={"color": colour, "size": 11, "symbol": "x"},
                )
            )
    if outcome.question.deadline is not None:
        figure.add_vline(
            x=outcome.question.deadline / unit.size,
            line={"dash": "dot", "width": 1.5, "color": theme.GREY},
        )
    figure.update_xaxes(title_text=unit.name, rangemode="tozero")
    figure.update_yaxes(title_text=outcome.prices.currency, rangemode="tozero")
    return theme.dress(figure, 380)


def frontier_cells(outcome: PlanOutcome) -> Cells:
    """The frontier as a table."""
    rows = [
        [
            plan.way.protocol,
            str(plan.on_demand),
            str(plan.preemptible),
            "–" if plan.bid is None else f"{plan.bid:g}",
            str(plan.buffer),
            "–" if plan.way.local_steps is None else str(plan.way.local_steps),
            f"{plan.versions:,}",
            units.in_seconds(plan.seconds),
            units.digits(plan.cost),
        ]
        for plan in outcome.plans
    ]
    head = ["training", "on demand", "preemptible", "bid", "buffer", "local steps"]
    head += ["versions", "time", outcome.prices.currency]
    return Cells(head, rows, " rrrrrrrr")


def check_cells(outcome: PlanOutcome) -> Cells:
    """The checks as a table."""
    rows = []
    for check in outcome.all_checks:
        count = len(check.seconds)
        rows.append(
            [
                check.name,
                workers_in_words(check.plan),
                units.in_seconds(check.plan.seconds),
                units.in_seconds(check.mean_seconds) if check.reached else "–",
                units.digits(check.plan.cost),
                units.digits(check.cost),
                f"{round(check.in_time * count)} of {count}",
                f"{round(check.reached * count)} of {count}",
            ]
        )
    head = ["plan", "workers", "predicted time", "time"]
    head += [f"predicted {outcome.prices.currency}", outcome.prices.currency]
    return Cells([*head, "in time", "at the target"], rows, "  rrrrrr")
