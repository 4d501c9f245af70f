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
@click.option("--no-report", is_flag=True, help="Do not write report.html.")
@click.option("-v", "--verbose", is_flag=True)
@in_sentences
def run(
    config: Path,
    changes: tuple[str, ...],
    out: Path | None,
    no_report: bool,
    verbose: bool,
) -> None:
    """Simulate the federation that CONFIG describes."""
    log_to_stderr(verbose)
    from fedsim.commands import simulate

    simulate(config, changes, out, report=not no_report)


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
    from fedsim.codecs.command import Wanted, compare_codecs
    from fedsim.codecs.pool import usual_jobs

    compare_codecs(Wanted(jobs=jobs or usual_jobs(), verbose=verbose, **wanted))
