"""The command ``fedsim trace``."""

from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from fedsim.traces.fit import Fit, fit_section
from fedsim.traces.journal import read_clients
from fedsim.traces.write import write_trace
from fedview.results import Results


def trace_run(folder: Path, out: Path, *, fitted: bool) -> None:
    """Writes the trace of a run.

    Args:
        folder: the folder of the run.
        out: the CSV file to write.
        fitted: also print a section ``simulate:`` with fitted distributions.

    Raises:
        ConfigError: no client was enrolled, or the file cannot be written.
    """
    recording = read_clients(Results(folder))
    console = Console(stderr=True)
    write_trace(out, recording.clients)
    console.print(
        f"{out}: {len(recording.clients)} clients, {recording.finished} tasks, "
        f"{recording.unfinished} never delivered, {len(recording.absences)} absences",
        soft_wrap=True,
    )
    if fitted:
        section, fits = fit_section(recording)
        console.print(_table(fits))
        text = yaml.safe_dump(
            {"simulate": section}, sort_keys=False, default_flow_style=None
        )
        Console(soft_wrap=True, highlight=False, markup=False).print(text, end="")


def _table(fits: list[Fit]) -> Table:
    table = Table(title="Kolmogorov-Smirnov distance of what was recorded")
    for heading in ("", "values", "taken", "distance of each kind", "5 % bound"):
        table.add_column(heading)
    for each in fits:
        table.add_row(
            each.what,
            str(each.values),
            each.chosen.config.kind,
            ", ".join(f"{kind} {d:.3f}" for kind, d in each.statistics.items()),
            f"{each.bound:.3f}",
        )
    return table
