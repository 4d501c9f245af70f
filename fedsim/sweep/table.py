"""A sweep in the terminal, and as cells of a page."""

from rich import box
from rich.table import Table
from rich.text import Text

from fedrun.report import units
from fedsim.campaign.words import column, largest, with_interval
from fedsim.sweep.rows import COSTS, Outcome

CAPTION = (
    "Means with 95 % intervals (Student t) over the seeds, the best first. Updates are "
    "accepted ones; payload counts up and down; time is virtual."
)


def sweep_table(outcome: Outcome) -> Table:
    """A row for each point."""
    head, rows = cells(outcome)
    table = Table(
        title=Text(heading(outcome)),
        title_justify="left",
        caption=Text(CAPTION),
        caption_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    settings = len(outcome.fields)
    for place, name in enumerate(head):
        is_text = 0 < place <= settings or place == len(head) - 1
        table.add_column(
            Text(name), justify="left" if is_text else "right", overflow="fold"
        )
    for place, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold green" if not place else "")
    return table


def heading(outcome: Outcome) -> str:
    """What was swept."""
    points = units.counted(len(outcome.rows), "point")
    seeds = units.counted(outcome.seeds, "seed")
    runs = units.counted(outcome.asked, "run")
    done = "" if outcome.done == outcome.asked else f", {outcome.done:,} done"
    return f"{outcome.app}: {points}, {seeds} each, {runs}{done}"


def cells(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """The heads of the columns, and the rows."""
    rows = outcome.rows
    costs = {name: [row.cost(name) for row in rows] for name in COSTS}
    used = {
        "versions": units.Unit(1.0, "versions"),
        "updates": units.Unit(1.0, "updates"),
        "nbytes": units.byte_unit(largest(costs["nbytes"])),
        "seconds": units.time_unit(largest(costs["seconds"])),
    }
    columns = [
        [str(place) for place in range(1, len(rows) + 1)],
        *(
            [row.point.settings[place][1] for row in rows]
            for place in range(len(outcome.fields))
        ),
        [with_interval(row.final) for row in rows],
        [with_interval(row.best) for row in rows],
        *(column(costs[name], used[name]) for name in COSTS),
        [row.remark for row in rows],
    ]
    head = [
        "#",
        *outcome.fields.values(),
        f"final {outcome.metric}",
        "best",
        *(("payload " if name == "nbytes" else "") + used[name].name for name in COSTS),
        "",
    ]
    return head, [list(row) for row in zip(*columns, strict=True)]
