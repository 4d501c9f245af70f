"""The commands ``run``, ``new``, ``trace`` and ``data``.

A command imports what it needs when it runs, so that ``--help`` is quick and an error
of an import is printed as a sentence.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from fedrun.cli.command import (
    PATH,
    app_option,
    data_changes,
    data_option,
    example,
    in_sentences,
    key_and_value,
    log_to_stderr,
    methods_option,
    node_config_option,
    out_option,
    verbose_option,
)
from fedrun.cli.help import MODEL, OUTPUT, command, section
from fedsim.cli.options import FEDERATION, OPTIONAL_CONFIG, count_option


@command(
    epilog=example(
        "fedsim run federation.yaml",
        "fedsim run federation.yaml --set algorithm.buffer=8 -o runs/buffer-8",
        "fedsim run --flower quickstart --set stop.versions=5",
    )
)
@OPTIONAL_CONFIG
@FEDERATION
@node_config_option
@out_option("The folder to write the run to.")
@section(
    OUTPUT,
    click.option(
        "--resume",
        metavar="RUN",
        type=PATH,
        help="Continue the run in this folder, which was interrupted or killed.",
    ),
    click.option(
        "--no-report", is_flag=True, help="Write neither report.html nor the tables."
    ),
    click.option(
        "--callback",
        "callbacks",
        multiple=True,
        type=click.Choice(["tensorboard", "mlflow", "wandb"]),
        metavar="NAME",
        help="Also send the metrics to tensorboard, mlflow or wandb while the "
        "simulation runs. May be given several times.",
    ),
)
@verbose_option
@in_sentences
def run(
    config: Path | None,
    app: str | None,
    changes: tuple[str, ...],
    data: tuple[str, ...],
    out: Path | None,
    no_report: bool,
    callbacks: tuple[str, ...],
    resume: Path | None,
    verbose: bool,
) -> None:
    """Simulate a federation.

    CONFIG is the YAML file that describes it; --flower DIR can do without. Ctrl-C
    stops the simulation and prints the command that continues it.
    """
    from fedsim.cli.interruption import hint_after_interruption

    flags = [*(["--no-report"] if no_report else []), *(["-v"] if verbose else [])]
    file = [] if config is None else [str(config)]
    words = ["fedsim", "run", *file, *_repeat(app, changes, data, callbacks), *flags]
    placed = [*words, *_option("--out", out), *_option("--resume", resume)]
    log_to_stderr(verbose)
    with hint_after_interruption(placed) as hint:
        from fedsim.cli.run import simulate

        simulate(
            config,
            hint,
            words,
            app=app,
            changes=(*changes, *data_changes(data)),
            out=out,
            report=not no_report,
            callbacks=callbacks,
            resume=resume,
        )


def _option(name: str, value: object) -> list[str]:
    """The words of an option that was given."""
    return [] if value is None else [name, str(value)]


def _repeat(
    app: str | None,
    changes: tuple[str, ...],
    data: tuple[str, ...],
    callbacks: tuple[str, ...],
) -> Iterator[str]:
    yield from _option("--app", app)
    many = ("--set", changes), ("--data", data), ("--callback", callbacks)
    for name, values in many:
        for value in values:
            yield from (name, value)


@command(epilog=example("fedsim new my_project --template numpy"))
@click.argument("folder", type=PATH)
@click.option(
    "--template",
    type=click.Choice(["torch", "numpy", "sklearn"]),
    default="torch",
    show_default=True,
    help="The library that the example app is written with.",
)
@in_sentences
def new(folder: Path, template: str) -> None:
    """Create a project that runs as it is.

    FOLDER gets an app, a federation.yaml and a README.
    """
    from fedsim.cli.project import make_project

    for line in make_project(folder, template):
        click.echo(line)


@command(epilog=example("fedsim trace runs/digits -o trace.csv"))
@click.argument("folder", metavar="RUN", type=PATH)
@out_option("The CSV file to write. simulate.trace reads it.", "trace.csv")
@click.option(
    "--fit",
    "fitted",
    is_flag=True,
    help="Also print a section simulate: with distributions fitted to the run.",
)
@methods_option
@in_sentences
def trace(folder: Path, out: Path, fitted: bool) -> None:
    """Record when the clients of a run worked.

    RUN is the folder of the run. The trace says how fast each client was and when it
    was available; a simulation can replay it.
    """
    from fedsim.traces.command import trace_run

    trace_run(folder, out, fitted=fitted)


@command(epilog=example("fedsim data --app my_app:workload --clients 20"))
@app_option(required=True)
@data_option
@section(
    MODEL,
    count_option("--clients", default=10, help="How many clients share the data."),
)
@out_option("The page to write.", "data.html")
@in_sentences
def data(app: str, clients: int, data: tuple[str, ...], out: Path) -> None:
    """Show how an app's data are spread over its clients."""
    from fedsim.cli.run import show_data

    show_data(app, clients, out, dict(map(key_and_value, data)))
