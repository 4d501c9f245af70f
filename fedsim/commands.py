"""What the commands of ``fedsim`` do."""

from pathlib import Path

from rich.console import Console

from fedcore.coordinator.events import Event
from fedcore.errors import ConfigError
from fedrun.app import load_app
from fedrun.callbacks import CALLBACKS, Notifier
from fedrun.columns import formats
from fedrun.config import load_config
from fedrun.export import export_config, export_tables
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
from fedsim.api import free_folder
from fedsim.api import run as run_simulation
from fedsim.progress import RunProgress

TABLES = "tables"  # beside the report


def simulate(
    path: Path,
    changes: tuple[str, ...],
    out: Path | None,
    *,
    report: bool,
    log: tuple[str, ...] = (),
    resume: Path | None = None,
) -> None:
    """Runs a simulation with a progress bar, and tells what came of it.

    Args:
        path: of the config.
        changes: of ``--set``.
        out: the folder of the run.
        report: whether the report and the tables are written.
        log: names of callbacks.
        resume: the folder of a run that was interrupted, to go on with.
    """
    config = load_config(path, changes)
    if config.app is None:
        raise ConfigError(f"{path}: app: is missing; the simulator needs the workload")
    place = path.resolve().parent
    workload = load_app(config.app, place)
    console = Console(stderr=True)
    notifier = Notifier([CALLBACKS[name]() for name in log])
    with notifier, RunProgress(config.stop, console) as progress:

        def told(run: Run, event: Event) -> None:
            progress(run, event)
            notifier(run, event)

        is_watched = bool(log) or console.is_terminal
        folder = resume or out or free_folder(config)
        try:
            results = run_simulation(
                config,
                workload,
                folder=folder,
                on_event=told if is_watched else None,
                resume=resume is not None,
            )
        except KeyboardInterrupt:
            if next((folder / "snapshots").glob("*"), None) is not None:
                again = f"fedsim run {path} --resume {folder}"
                console.print(f"interrupted; to go on: {again}", soft_wrap=True)
            raise
        notifier.end(results)
    export_config(results.folder, place)
    shown = Console()
    shown.print(summary_table(results))
    traffic = read_traffic(results.folder)
    if traffic is not None:
        for table in traffic_tables(traffic, results.names, results.dim):
            shown.print(table)
    if report:
        export_tables(results.folder, results.folder / TABLES)
        tables = f"tables: {results.folder / TABLES} ({formats()})"
        console.print(tables, soft_wrap=True, markup=False, highlight=False)
        console.print(f"report: {write_report(results.folder)}", soft_wrap=True)


def show_data(app: str, clients: int, out: Path) -> None:
    """Shows how an app shares its data out among clients."""
    shares = shares_of(load_app(app), clients)
    Console().print(partition_table(shares))
    Console(stderr=True).print(f"page: {partition_page(shares, out, app)}")
