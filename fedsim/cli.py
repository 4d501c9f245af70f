"""The command ``fedsim``."""

from pathlib import Path
from typing import Any

import click

from fedrun.command import in_sentences, log_to_stderr

PATH = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Simulates a federation in one process."""


@main.command()
@click.argument("config", type=PATH)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value than the config's, such as algorithm.buffer=8.",
)
@click.option("-o", "--out", type=PATH, help="The folder of the run.")
@click.option(
    "--no-report", is_flag=True, help="Write neither report.html nor the tables."
)
@click.option(
    "--log",
    multiple=True,
    type=click.Choice(["tensorboard", "mlflow", "wandb"]),
    help="Tell the metrics as they come.",
)
@click.option(
    "--resume",
    metavar="RUN",
    type=PATH,
    help="Go on with the run in this folder, which was interrupted or killed.",
)
@click.option("-v", "--verbose", is_flag=True)
@in_sentences
def run(
    config: Path,
    changes: tuple[str, ...],
    out: Path | None,
    no_report: bool,
    log: tuple[str, ...],
    resume: Path | None,
    verbose: bool,
) -> None:
    """Simulate the federation that CONFIG describes."""
    log_to_stderr(verbose)
    from fedsim.commands import simulate

    simulate(config, changes, out, report=not no_report, log=log, resume=resume)


@main.command()
@click.argument("folder", type=PATH)
@click.option(
    "--kind",
    type=click.Choice(["torch", "numpy", "sklearn"]),
    default="torch",
    show_default=True,
    help="What the app is written with.",
)
@in_sentences
def new(folder: Path, kind: str) -> None:
    """Make a project in FOLDER that runs as it is."""
    from fedsim.project import make_project

    for line in make_project(folder, kind):
        click.echo(line)


@main.command()
@click.argument("folder", metavar="RUN", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    default=Path("trace.csv"),
    show_default=True,
    help="The CSV, which simulate.trace replays.",
)
@click.option(
    "--fit",
    "fitted",
    is_flag=True,
    help="Print a section simulate: with distributions that are like the run.",
)
@in_sentences
def trace(folder: Path, out: Path, fitted: bool) -> None:
    """Write down what the clients of RUN did, to simulate others like them."""
    from fedsim.traces.command import trace_run

    trace_run(folder, out, fitted=fitted)


@main.command()
@click.argument("app")
@click.option("--clients", type=click.IntRange(1), default=10, show_default=True)
@click.option("-o", "--out", type=PATH, default=Path("data.html"), show_default=True)
@in_sentences
def data(app: str, clients: int, out: Path) -> None:
    """Show who holds what: how APP shares its data out among clients."""
    from fedsim.commands import show_data

    show_data(app, clients, out)


@main.command()
@click.argument("config", type=PATH, required=False)
@click.option("--app", help="The workload, module:attribute, if not the config's.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value than the config's, such as algorithm.buffer=8.",
)
@click.option(
    "--uplink",
    "uplinks",
    multiple=True,
    metavar="CODEC",
    help="A candidate for the uplink, such as top_k:ratio=0.01, or as YAML.",
)
@click.option(
    "--downlink",
    "downlinks",
    multiple=True,
    metavar="CODEC",
    help="A candidate for the downlink.",
)
@click.option(
    "--versions",
    "--rounds",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How long each simulation is.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Each pair is simulated so many times; the means are compared.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.005,
    show_default=True,
    help="How much worse than uncompressed the pair to take may be.",
)
@click.option("-o", "--out", type=PATH, help="The folder of the page and the numbers.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes; the results are the same."
)
@click.option("-v", "--verbose", is_flag=True)
@in_sentences
def codecs(jobs: int | None, verbose: bool, **wanted: Any) -> None:
    """Compare codecs on your own model, and name the pair to take.

    CONFIG describes the federation; without it, --app is federated with the defaults.
    """
    log_to_stderr(verbose)
    from fedsim.campaign.pool import usual_jobs
    from fedsim.codecs.command import Wanted, compare_codecs

    compare_codecs(Wanted(jobs=jobs or usual_jobs(), verbose=verbose, **wanted))


@main.command()
@click.argument("config", type=PATH)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value than the config's, for all runs.",
)
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="FIELD=VALUE,VALUE",
    help="Values to try, such as algorithm.buffer=4,8; of several, all combinations.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="FIELD=SCALE:LOW:HIGH",
    help="What --random draws from: scale linear, log or int, such as "
    "algorithm.client.lr=log:0.01:1.",
)
@click.option(
    "--random",
    type=click.IntRange(1),
    metavar="N",
    help="Draw so many points, from --range and from the values of --grid.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Each point is simulated so many times.",
)
@click.option("--metric", help="What to compare by; accuracy, or what there is.")
@click.option("-o", "--out", type=PATH, help="The folder of the sweep.")
@click.option("--fresh", is_flag=True, help="Simulate also what is done already.")
@click.option("--keep", is_flag=True, help="Keep the run folders.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes; the results are the same."
)
@click.option("-v", "--verbose", is_flag=True)
@in_sentences
def sweep(jobs: int | None, verbose: bool, **wanted: Any) -> None:
    """Try many settings of the federation that CONFIG describes.

    Runs that are done are kept in the folder of the sweep: the same command, or one
    with more values or seeds, simulates only what is new.
    """
    log_to_stderr(verbose)
    from fedsim.campaign.pool import usual_jobs
    from fedsim.sweep.command import Wanted, sweep_settings

    sweep_settings(Wanted(jobs=jobs or usual_jobs(), verbose=verbose, **wanted))


@main.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("--metric", help="What to compare by; accuracy, or what there is.")
@click.option(
    "--target",
    type=float,
    help="Costs are told up to this value of the metric; without it, up to that of "
    "stop.target, or to what all come to.",
)
@click.option("-o", "--out", type=PATH, help="A page with the curves.")
@in_sentences
def compare(
    runs: tuple[str, ...], metric: str | None, target: float | None, out: Path | None
) -> None:
    """Compare RUNS: folders of runs or of sweeps.

    Of a sweep its best point is taken, or that of another row: FOLDER:2. Runs which
    differ in their seeds alone are taken together.
    """
    from fedsim.compare.command import compare_runs

    compare_runs(runs, metric, target, out)


@main.command()
@click.argument("config", type=PATH)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value than the config's, such as algorithm.buffer=8.",
)
@click.option(
    "--clients", type=click.IntRange(1), help="How many; simulate.clients if not said."
)
@click.option(
    "--run", type=PATH, metavar="RUN", help="A run that has been; none is started."
)
@click.option(
    "--pilot",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="So much of the run the calibrated simulation knows; a quarter if not said.",
)
@click.option("--metric", help="What to compare by; accuracy, or what there is.")
@click.option(
    "--target",
    type=float,
    help="Time is told up to this value of the metric; without it, up to that of "
    "stop.target, or to nine tenths of what is gained.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Each simulation is repeated with so many seeds.",
)
@click.option("-o", "--out", type=PATH, help="The folder of the page and the runs.")
@click.option("-v", "--verbose", is_flag=True)
@in_sentences
def fidelity(verbose: bool, **wanted: Any) -> None:
    """Run the federation that CONFIG describes with real processes, and simulate it.

    The processes are a server and clients on this machine that are as slow, and come
    and go, as the section simulate says. With --run, a run that has been is taken.
    """
    log_to_stderr(verbose)
    from fedsim.fidelity.command import Wanted, show_fidelity

    show_fidelity(Wanted(**wanted))
