"""What the commands of ``fedsim`` do."""

from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from fedcore.coordinator.events import Event, ModelMeasured
from fedcore.errors import ConfigError
from fedrun.app import load_app
from fedrun.config import load_config
from fedrun.report import (
    partition_page,
    partition_table,
    shares_of,
    summary_table,
    write_report,
)
from fedrun.run import Run
from fedrun.tables import traffic_tables
from fedrun.traffic import read_traffic
from fedsim.api import run as run_simulation


def simulate(
    path: Path, changes: tuple[str, ...], out: Path | None, *, report: bool
) -> None:
    """Runs a simulation with a progress bar, and tells what came of it."""
    config = load_config(path, changes)
    if config.app is None:
        raise ConfigError(f"{path}: app: is missing; the simulator needs the workload")
    workload = load_app(config.app, path.resolve().parent)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[measured]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        goal = config.stop.versions
        task = bar.add_task("versions", total=goal, measured="")

        def show(run: Run, event: Event) -> None:
            version = run.coordinator.state.version
            if isinstance(event, ModelMeasured):
                values = (f"{k} {v:.3f}" for k, v in event.values.items())
                bar.update(task, measured="  ".join(values))
            bar.update(task, completed=version)

        results = run_simulation(config, workload, folder=out, on_event=show)
    shown = Console()
    shown.print(summary_table(results))
    traffic = read_traffic(results.folder)
    if traffic is not None:
        for table in traffic_tables(traffic, results.names, results.dim):
            shown.print(table)
    if report:
        console.print(f"report: {write_report(results.folder)}", soft_wrap=True)


def show_data(app: str, clients: int, out: Path) -> None:
    """Shows how an app shares its data out among clients."""
    shares = shares_of(load_app(app), clients)
    Console().print(partition_table(shares))
    Console(stderr=True).print(f"page: {partition_page(shares, out, app)}")
