"""Summarises a run for a terminal."""

from rich.table import Table
from rich.text import Text

from fedview.report.client_timelines import timelines_of
from fedview.report.header import facts, recipe, title
from fedview.report.loss_summary import loss_summary
from fedview.results import Results


def outcome(results: Results) -> str:
    """Returns the result of a run in a line: its metric, and what it lost."""
    found = loss_summary(results, timelines_of(results)).headline
    return f"{title(results)}; {found[0].lower()}{found[1:].rstrip('.')}"


def summary_table(results: Results) -> Table:
    """Makes the table that ``fedsim run`` prints."""
    timelines = timelines_of(results)
    table = Table(
        title=Text(f"Run {results.configured.run_id}"),
        title_justify="left",
        caption=Text(recipe(results)),
        caption_justify="left",
        show_header=False,
    )
    table.add_column("what", style="dim", no_wrap=True)
    table.add_column("value", style="bold")
    table.add_column("more")
    for name, value, more in facts(results, timelines):
        table.add_row(Text(name), Text(value), Text(more))
    loss = loss_summary(results, timelines)
    table.add_section()
    table.add_row(
        Text("Lost"),
        Text(loss.headline, style="green" if loss.nothing else "yellow"),
        Text(loss.sentences[0]),
    )
    for warning in results.summary["warnings"]:
        table.add_row(Text("Warning"), Text(warning, style="yellow"), Text(""))
    return table
