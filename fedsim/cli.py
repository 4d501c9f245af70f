"""The command ``fedsim``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fedrun.command import (
    FROM_CONFIG,
    app_option,
    data_changes,
    data_option,
    example,
    in_sentences,
    key_and_value,
    log_to_stderr,
    named_app,
    set_option,
    verbose_option,
)

PATH = click.Path(path_type=Path)
APP = app_option(otherwise=FROM_CONFIG)
CONFIG = click.argument("config", type=PATH)
METRIC = click.option(
    "--metric",
    help="The metric to compare by. Without it, accuracy, or the first one measured.",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1),
    help="How many processes simulate at a time. The results do not depend on it.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Simulate a federation on this machine, and study it."""


@main.command(
    epilog=example(
        "fedsim run federation.yaml",
        "fedsim run federation.yaml --set algorithm.buffer=8 -o runs/buffer-8",
    )
)
@CONFIG
@APP
@set_option
@data_option
@click.option("-o", "--out", type=PATH, help="The folder to write the run to.")
@click.option(
    "--no-report", is_flag=True, help="Write neither report.html nor the tables."
)
@click.option(
    "--log",
    multiple=True,
    type=click.Choice(["tensorboard", "mlflow", "wandb"]),
    help="Also log the metrics there, as they are measured.",
)
@click.option(
    "--resume",
    metavar="RUN",
    type=PATH,
    help="Continue the run in this folder, which was interrupted or killed.",
)
@verbose_option
@in_sentences
def run(
    config: Path,
    app: str | None,
    changes: tuple[str, ...],
    data: tuple[str, ...],
    out: Path | None,
    no_report: bool,
    log: tuple[str, ...],
    resume: Path | None,
    verbose: bool,
) -> None:
    """Simulate a federation.

    CONFIG is the YAML file that describes it. Ctrl-C stops the simulation and prints
    the command that continues it.
    """
    from fedsim.again import going_on

    flags = [*(["--no-report"] if no_report else []), *(["-v"] if verbose else [])]
    words = ["fedsim", "run", str(config), *_repeated(app, changes, data, log), *flags]
    placed = [*words, *_option("--out", out), *_option("--resume", resume)]
    log_to_stderr(verbose)
    with going_on(placed) as again:
        from fedsim.commands import Wanted, simulate

        wanted = Wanted(
            config=config,
            app=app,
            changes=(*changes, *data_changes(data)),
            out=out,
            report=not no_report,
            log=log,
            resume=resume,
        )
        simulate(wanted, again, words)


def _option(name: str, value: object) -> list[str]:
    """An option as it was typed, if it was."""
    return [] if value is None else [name, str(value)]


def _repeated(
    app: str | None,
    changes: tuple[str, ...],
    data: tuple[str, ...],
    log: tuple[str, ...],
) -> Iterator[str]:
    yield from _option("--app", app)
    for name, values in (("--set", changes), ("--data", data), ("--log", log)):
        for value in values:
            yield from (name, value)


@main.command(epilog=example("fedsim new my_project --kind numpy"))
@click.argument("folder", type=PATH)
@click.option(
    "--kind",
    type=click.Choice(["torch", "numpy", "sklearn"]),
    default="torch",
    show_default=True,
    help="The library that the example app is written with.",
)
@in_sentences
def new(folder: Path, kind: str) -> None:
    """Create a project that runs as it is.

    FOLDER gets an app, a federation.yaml and a README.
    """
    from fedsim.project import make_project

    for line in make_project(folder, kind):
        click.echo(line)


@main.command(epilog=example("fedsim trace runs/digits -o trace.csv"))
@click.argument("folder", metavar="RUN", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    default=Path("trace.csv"),
    show_default=True,
    help="The CSV file to write. simulate.trace reads it.",
)
@click.option(
    "--fit",
    "fitted",
    is_flag=True,
    help="Also print a section simulate: with distributions fitted to the run.",
)
@in_sentences
def trace(folder: Path, out: Path, fitted: bool) -> None:
    """Record when the clients of a run worked.

    RUN is the folder of the run. The trace says how fast each client was and when it
    was there; a simulation can replay it.
    """
    from fedsim.traces.command import trace_run

    trace_run(folder, out, fitted=fitted)


@main.command(epilog=example("fedsim data --app my_app:workload --clients 20"))
@named_app
@click.option(
    "--clients",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="How many clients share the data.",
)
@data_option
@click.option(
    "-o",
    "--out",
    type=PATH,
    default=Path("data.html"),
    show_default=True,
    help="The page to write.",
)
@in_sentences
def data(app: str, clients: int, data: tuple[str, ...], out: Path) -> None:
    """Show how an app's data are spread over its clients."""
    from fedsim.commands import show_data

    show_data(app, clients, out, dict(map(key_and_value, data)))


@main.command(
    epilog=example(
        "fedsim codecs federation.yaml --uplink top_k:ratio=0.01",
        "fedsim codecs --app my_app:workload",
    )
)
@click.argument("config", type=PATH, required=False)
@APP
@set_option
@data_option
@click.option(
    "--uplink",
    "uplinks",
    multiple=True,
    metavar="CODEC",
    help="A codec to try for updates, such as top_k:ratio=0.01 or as YAML. May be "
    "given several times.",
)
@click.option(
    "--downlink",
    "downlinks",
    multiple=True,
    metavar="CODEC",
    help="A codec to try for models. May be given several times.",
)
@click.option(
    "--versions",
    "--rounds",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How many versions each simulation makes.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How often each pair is simulated; the means are compared.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.005,
    show_default=True,
    help="How much worse than uncompressed the recommended pair may be.",
)
@click.option("-o", "--out", type=PATH, help="The folder for the page and numbers.")
@JOBS
@verbose_option
@in_sentences
def codecs(
    jobs: int | None,
    verbose: bool,
    changes: tuple[str, ...],
    data: tuple[str, ...],
    **wanted: Any,
) -> None:
    """Compare codecs on your model, and recommend a pair.

    CONFIG is the YAML file of the federation. Without it, the app is simulated with
    all defaults.
    """
    log_to_stderr(verbose)
    from fedsim.campaign.pool import usual_jobs
    from fedsim.codecs.command import Wanted, compare_codecs

    changes = (*changes, *data_changes(data))
    jobs = jobs or usual_jobs()
    compare_codecs(Wanted(jobs=jobs, verbose=verbose, changes=changes, **wanted))


@main.command(
    epilog=example(
        "fedsim sweep federation.yaml --grid algorithm.buffer=4,8 --seeds 3",
        "fedsim sweep federation.yaml --random 8 \\",
        "    --range algorithm.client.lr=log:0.01:1",
    )
)
@CONFIG
@APP
@set_option
@data_option
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="FIELD=VALUE,VALUE",
    help="Values to try, such as algorithm.buffer=4,8. With several, every "
    "combination is tried.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="FIELD=SCALE:LOW:HIGH",
    help="An interval from which --random draws; the scale is linear, log or int, as "
    "in algorithm.client.lr=log:0.01:1.",
)
@click.option(
    "--random",
    type=click.IntRange(1),
    metavar="N",
    help="Draw this many points from the intervals of --range and the values of "
    "--grid.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How often each point is simulated.",
)
@METRIC
@click.option("-o", "--out", type=PATH, help="The folder of the sweep.")
@click.option("--fresh", is_flag=True, help="Simulate again what is done already.")
@click.option("--keep", is_flag=True, help="Keep the folders of the runs.")
@JOBS
@verbose_option
@in_sentences
def sweep(
    jobs: int | None,
    verbose: bool,
    changes: tuple[str, ...],
    data: tuple[str, ...],
    **wanted: Any,
) -> None:
    """Try many settings of a federation.

    CONFIG is the YAML file of the federation. Finished runs are kept in the folder of
    the sweep: the same command, or one with more values or seeds, simulates only what
    is new.
    """
    log_to_stderr(verbose)
    from fedsim.campaign.pool import usual_jobs
    from fedsim.sweep.command import Wanted, sweep_settings

    changes = (*changes, *data_changes(data))
    jobs = jobs or usual_jobs()
    sweep_settings(Wanted(jobs=jobs, verbose=verbose, changes=changes, **wanted))


@main.command(epilog=example("fedsim compare runs/a runs/b --target 0.9 -o page.html"))
@click.argument("runs", nargs=-1, required=True)
@METRIC
@click.option(
    "--target",
    type=float,
    help="Count costs up to this value of the metric. Without it, up to stop.target, "
    "or to the best value that all runs reach.",
)
@click.option("-o", "--out", type=PATH, help="Also write a page with the curves.")
@in_sentences
def compare(
    runs: tuple[str, ...], metric: str | None, target: float | None, out: Path | None
) -> None:
    """Compare runs or sweeps by metric and cost.

    RUNS are their folders. Of a sweep the best point is taken, or another row:
    FOLDER:2. Runs that differ only in their seeds are averaged.
    """
    from fedsim.compare.command import compare_runs

    compare_runs(runs, metric, target, out)


@main.command(epilog=example("fedsim fidelity federation.yaml --clients 8 --seeds 3"))
@CONFIG
@APP
@set_option
@data_option
@click.option(
    "--clients",
    type=click.IntRange(1),
    help="How many clients. Without it, simulate.clients.",
)
@click.option(
    "--run",
    type=PATH,
    metavar="RUN",
    help="Compare with this finished run; no processes are started.",
)
@click.option(
    "--pilot",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How much of the run the simulation is calibrated on. Without it, a quarter.",
)
@METRIC
@click.option(
    "--target",
    type=float,
    help="Compare times up to this value of the metric. Without it, up to stop.target, "
    "or to nine tenths of the gain.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How often each simulation is repeated.",
)
@click.option("-o", "--out", type=PATH, help="The folder for the page and the runs.")
@verbose_option
@in_sentences
def fidelity(
    verbose: bool, changes: tuple[str, ...], data: tuple[str, ...], **wanted: Any
) -> None:
    """Check a simulation against real processes.

    CONFIG is the YAML file of the federation. A server and clients are started on this
    machine, which are as slow, and come and go, as the section simulate says; then the
    same federation is simulated, and both are compared.
    """
    log_to_stderr(verbose)
    from fedsim.fidelity.command import Wanted, show_fidelity

    show_fidelity(Wanted(changes=(*changes, *data_changes(data)), **wanted))
