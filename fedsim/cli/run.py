"""What ``fedsim run`` and ``fedsim data`` do."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from fedcore.errors import ConfigError, JournalError
from fedcore.workload import Workload
from fedrun.app import app_of, framework_of, load_app
from fedrun.cli.traffic_tables import bytes_of_all
from fedrun.config import FederationConfig, config_in, load_config
from fedrun.run import Run
from fedsim.api import free_folder
from fedsim.api import run as run_simulation
from fedsim.cli.interruption import Hint
from fedsim.progress import RunProgress
from fedsim.snapshots import can_go_on
from fedview.callbacks import CALLBACKS, Notice, Notifier
from fedview.export import export_config, export_tables
from fedview.report import (
    outcome,
    partition_page,
    partition_table,
    shares_of,
    summary_table,
    write_report,
)
from fedview.results import Results
from fedview.results.columns import formats

TABLES = "tables"  # beside the report


def simulate(
    path: Path | None,
    hint: Hint,
    words: Sequence[str],
    *,
    app: str | None = None,
    changes: Sequence[str] = (),
    out: Path | None = None,
    report: bool = True,
    callbacks: Sequence[str] = (),
    resume: Path | None = None,
) -> None:
    """Runs a simulation, shows its progress, and prints and writes its results.

    Args:
        path: the YAML file. Without it, the folder of a Flower app says what it can.
        hint: what an interruption prints.
        words: the command as it was typed, without ``--out`` and ``--resume``.
        app: ``module:attribute``. Without it, the app that the config names.
        changes: changes of the config, as ``field=value``.
        out: the folder of the run. Without it, the next free one.
        report: whether to write the report and the tables.
        callbacks: the names of callbacks that receive the metrics.
        resume: the folder of a run to continue.
    """
    config, workload, place = _federation(path, app, changes)
    console = Console(stderr=True)
    notifier = Notifier([CALLBACKS[each]() for each in callbacks])
    folder = resume or out or free_folder(config)
    with notifier, RunProgress(config.stop, console) as progress:

        def notify(run: Run, event: Notice) -> str | None:
            progress(run, event)
            return notifier(run, event)

        hint.has_begun = True
        try:
            results = run_simulation(
                config,
                workload,
                folder=folder,
                on_event=notify,
                resume=resume is not None,
            )
        except BaseException:  # printed if it was an interruption
            _hint_at_continuing(hint, words, folder, out)
            raise
        hint.say("interrupted after the run; to look at it", _report_of(folder))
        notifier.end(results)
    export_config(results.folder, place)
    shown = Console()
    shown.print(
        *bytes_of_all(results.lanes, results.dim), summary_table(results), sep="\n"
    )
    if report:
        export_tables(results.folder, results.folder / TABLES)
        tables = f"tables: {results.folder / TABLES} ({formats()})"
        console.print(tables, soft_wrap=True, markup=False, highlight=False)
        console.print(f"report: {write_report(results.folder)}", soft_wrap=True)
    shown.print(outcome(results), markup=False, highlight=False)


def _federation(
    path: Path | None, app: str | None, changes: Sequence[str]
) -> tuple[FederationConfig, Workload, Path]:
    """Returns a config, its workload, and the folder of its app.

    Raises:
        ConfigError: there is no file, and the app is no folder of a Flower app.
    """
    if path is None:
        other = None if app is None else framework_of(app)
        if app is None or other is None:
            raise ConfigError(
                "CONFIG is missing; only a Flower app (--flower DIR) says itself how "
                "it is simulated"
            )
        place, workload = Path.cwd(), other.load_app(app)
        raw, folder = other.federation_of(app)
        return config_in(place, raw, changes, str(folder)), workload, place
    config = load_config(path, changes)
    name, place = app_of(app, config, path)
    config = config.model_copy(update={"app": name})
    return config, load_app(name, place), place


def _report_of(folder: Path) -> list[str]:
    return ["fedserver", "report", str(folder)]


def _hint_at_continuing(
    hint: Hint, words: Sequence[str], folder: Path, out: Path | None
) -> None:
    """Sets the hint: a run with a snapshot can go on, another one begins again."""
    results = Results(folder)
    with suppress(JournalError):  # there is none yet
        if can_go_on(folder):
            hint.say("interrupted; to go on", [*words, "--resume", str(folder)])
            return
        if results.summary["ended"] is not None:
            hint.say("interrupted after the run; to look at it", _report_of(folder))
            return
        if not results.summary["versions"]:
            place = [] if out is None else ["--out", str(out)]
            what = "interrupted before the first version; to begin again"
            hint.say(what, [*words, *place])
            return
        if out is not None:
            words = [*words, "--out", str(_other(out))]
        hint.say("interrupted, and cannot go on; to begin again", words)


def _other(folder: Path) -> Path:
    """The folder with the next free number after its name."""
    number = 2
    while (other := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return other


def show_data(
    app: str, clients: int, out: Path, args: Mapping[str, str] | None = None
) -> None:
    """Prints how an app's data are spread over its clients, and writes a page.

    Args:
        app: ``module:attribute``.
        clients: how many clients share the data.
        out: the page to write.
        args: what ``train_data`` finds in ``client.args``.
    """
    shares = shares_of(load_app(app), clients, args)
    Console().print(partition_table(shares))
    Console(stderr=True).print(f"page: {partition_page(shares, out, app)}")
