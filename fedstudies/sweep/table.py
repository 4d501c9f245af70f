"""A sweep in the terminal, and as cells of a page."""

from rich.console import RenderableType

from fedrun import units
from fedstudies.sweep.outcome import COSTS, Outcome
from fedstudies.tables import Cells, cost_columns, with_interval

CAPTION = (
    "Means with 95 % intervals (Student t) over the seeds, the best first. Updates are "
    "accepted ones; payload counts up and down; time is virtual."
)


def sweep_table(outcome: Outcome) -> RenderableType:
    """A row for each point, for a terminal."""
    title = heading(outcome)
    highlighted = 0 if outcome.is_clear else None
    return cells(outcome).on_screen(
        title=title, caption=CAPTION, highlighted=highlighted
    )


def heading(outcome: Outcome) -> str:
    """The title: the app, and how many points, seeds and runs."""
    points = units.counted(len(outcome.rows), "point")
    seeds = units.counted(outcome.seeds, "seed")
    runs = units.counted(outcome.asked, "run")
    done = "" if outcome.done == outcome.asked else f", {outcome.done:,} done"
    return f"{outcome.app}: {points}, {seeds} each, {runs}{done}"


def cells(outcome: Outcome) -> Cells:
    """A row for each point: its settings, its results and its costs."""
    rows, metric = outcome.rows, outcome.metric
    heads, costs = cost_columns(
        {name: [row.cost(name) for row in rows] for name in COSTS}
    )
    columns = [
        [str(place) for place in range(1, len(rows) + 1)],
        *(
            [row.point.settings[place][1] for row in rows]
            for place in range(len(outcome.fields))
        ),
        [with_interval(row.final(metric)) for row in rows],
        [with_interval(row.best(metric)) for row in rows],
        *costs,
        [row.remark(metric) for row in rows],
    ]
    head = ["#", *outcome.fields.values(), f"final {metric}", "best", *heads, ""]
    align = "r" + " " * len(outcome.fields) + "r" * (2 + len(COSTS)) + " "
    return Cells(head, list(zip(*columns, strict=True)), align)
