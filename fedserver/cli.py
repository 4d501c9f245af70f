"""The command ``fedserver``."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fedcore.errors import ConfigError
from fedrun.command import in_sentences, log_to_stderr
from fedserver.journal_cli import journal_commands

CONFIG = click.argument("config", type=click.Path(path_type=Path))
RUN = click.argument("run", type=click.Path(path_type=Path))
SET = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value than the config's, such as algorithm.buffer=8.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Serves a federation, and looks after its run."""
    # An error is one sentence, without the transport's own log around it.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


main.add_command(journal_commands, "journal")


def _trusted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a server is trusted."""
    path = click.Path(path_type=Path)
    for option in (
        click.option("--plaintext", is_flag=True, help="No TLS beyond this machine."),
        click.option("--key", type=path, help="The certificate's private key."),
        click.option("--certificate", type=path, help="The client's certificate."),
        click.option("--ca", type=path, help="Who signed the server's certificate."),
    ):
        function = option(function)
    return function


@main.command()
@CONFIG
@SET
@click.option("--amend", is_flag=True, help="Go on with a changed algorithm.")
@click.option("--must-resume", is_flag=True, help="Never begin a new run.")
@click.option("--no-evaluator", is_flag=True, help="Do not start the evaluator.")
@click.option("--lines", is_flag=True, help="JSON lines, also on a terminal.")
@click.option("-v", "--verbose", is_flag=True)
@in_sentences
def run(
    config: Path,
    changes: tuple[str, ...],
    amend: bool,
    must_resume: bool,
    no_evaluator: bool,
    lines: bool,
    verbose: bool,
) -> None:
    """Serve the federation that CONFIG describes."""
    log_to_stderr(verbose)
    from fedrun.config import load_config
    from fedserver.serving import serve

    federation = load_config(config, changes)
    ended = serve(
        federation,
        config.resolve().parent,
        amend=amend,
        must_resume=must_resume,
        evaluator=not no_evaluator,
        lines=lines,
    )
    folder = federation.server.journal
    if ended is None:
        click.echo(f"stopped; the same command goes on with {folder}", err=True)
    else:
        click.echo(f"ended: {ended}; look at it: fedserver report {folder}", err=True)


@main.command()
@CONFIG
@SET
@in_sentences
def check(config: Path, changes: tuple[str, ...]) -> None:
    """Print the whole config with all defaults, or every mistake in it."""
    import yaml

    from fedrun.config import load_config

    federation = load_config(config, changes)
    plain = federation.model_dump(mode="json")
    click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)


@main.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@_trusted
@in_sentences
def status(host: str, as_json: bool, **trust: Any) -> None:
    """Ask a running server how it does."""
    from fedserver.remote import ask_status, status_table

    told = ask_status(host, **trust)
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    from rich.console import Console

    Console().print(status_table(told))


@main.command()
@click.argument("host")
@_trusted
@in_sentences
def healthcheck(host: str, **trust: Any) -> None:
    """Exit with 0 if the server is healthy (for containers and probes)."""
    from fedserver.remote import ask_health

    click.echo(ask_health(host, **trust))


@main.command()
@RUN
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The page to write.")
@in_sentences
def report(run: Path, out: Path | None) -> None:
    """Write the story of a run as one HTML page."""
    from fedrun.report import write_report

    click.echo(write_report(run, out))


@main.command()
@RUN
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The file."
)
@click.option("--which", type=click.Choice(["last", "best", "exact", "initial"]))
@click.option("--version", type=int, help="Any version that the journal still holds.")
@in_sentences
def export(run: Path, out: Path, which: str | None, version: int | None) -> None:
    """Write a model of a run as a safetensors file."""
    from fedrun.export import export_model

    click.echo(export_model(run, out, which or "last", version))


@main.command()
@RUN
@click.argument("name")
@in_sentences
def free(run: Path, name: str) -> None:
    """Let NAME be taken by whoever enrols under it next, also while RUN is served."""
    from fedserver.names import free as let_go

    if not let_go(run, name):
        raise ConfigError(f"{run}: nobody has the name {name!r}")
    click.echo(f"the name {name!r} is free")


@main.command()
@RUN
@click.argument("target", type=click.Path(path_type=Path))
@in_sentences
def backup(run: Path, target: Path) -> None:
    """Copy a run, also while it is served."""
    from fedrun.journal import backup as copy

    number = copy(run, target)
    click.echo(f"{target} holds all {number} records of {run}")


@main.command()
@click.argument("source", type=click.Path(path_type=Path))
@RUN
@in_sentences
def restore(source: Path, run: Path) -> None:
    """Make a backup the run in RUN; its clients take back what it does not hold."""
    from fedrun.journal import restore as bring_back
    from fedrun.run import fresh_name

    epoch = bring_back(source, run, fresh_name)
    click.echo(f"{run} is restored from {source}; its history is now {epoch}")
