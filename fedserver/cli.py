"""The command ``fedserver``."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import click

from fedcore.errors import ConfigError
from fedrun.cli.command import (
    PATH,
    example,
    in_sentences,
    json_option,
    log_to_stderr,
    methods_option,
    out_option,
    set_option,
    trust_options,
    verbose_option,
)
from fedrun.cli.help import OUTPUT, Group, section
from fedrun.cli.plain_json import to_json
from fedserver.operator.acts_cli import RUN_OR_HOST, add_acts
from fedserver.operator.journal_cli import RUN, journal_commands

CONFIG = click.argument("config", type=PATH)
_WIDE = 1000  # columns


class _Which(click.Choice[str]):
    """A word for a model, or the number of a version."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        is_version = isinstance(value, str) and value.isdecimal()
        return value if is_version else super().convert(value, param, ctx)


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    example="fedserver run federation.yaml",
    page="operations.md",
)
@click.version_option(package_name="latecomer")
def main() -> None:
    """Serve a federation, and manage its run."""
    # An error is one sentence, without the transport's own log around it.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@main.command(
    epilog=example("fedserver check federation.yaml --set algorithm.buffer=8")
)
@CONFIG
@set_option
@in_sentences
def check(config: Path, changes: tuple[str, ...]) -> None:
    """Print a config with all its defaults, or all its mistakes.

    A model file that is there is compared with the app, if that is there as well.
    """
    import yaml

    from fedrun.config import load_config
    from fedserver.children import check_model

    log_to_stderr(verbose=False)
    federation = load_config(config, changes)
    check_model(federation, config.resolve().parent)
    plain = federation.model_dump(mode="json")
    click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)


@main.command(epilog=example("fedserver schema -o federation.schema.json"))
@methods_option
@out_option("The file to write. Without it, print the schema.")
@in_sentences
def schema(out: Path | None) -> None:
    """Write a JSON schema of the config, for editors.

    An editor with a YAML extension completes and checks a config that begins with
    "# yaml-language-server: $schema=federation.schema.json".
    """
    from fedrun.config.schema import federation_schema
    from fedrun.plain_files import write_text

    text = to_json(federation_schema(), indent=2)
    if out is None:
        click.echo(text)
        return
    write_text(out, f"{text}\n")
    click.echo(out)


@main.command(epilog=example("fedserver run federation.yaml"))
@CONFIG
@set_option
@click.option(
    "--amend",
    is_flag=True,
    help="Continue the run although the algorithm in CONFIG has changed.",
)
@click.option(
    "--must-resume",
    is_flag=True,
    help="Fail if there is no run to continue, instead of starting a new one.",
)
@click.option(
    "--no-evaluator", is_flag=True, help="Do not start an evaluator beside the server."
)
@section(
    OUTPUT,
    click.option(
        "--log",
        type=click.Choice(["text", "json"]),
        help="How to show what happens: text is a live view, json has one object a "
        "line, with the ids of run, client and task.  [default: text on a terminal, "
        "json elsewhere]",
    ),
)
@verbose_option
@in_sentences
def run(
    config: Path,
    changes: tuple[str, ...],
    amend: bool,
    must_resume: bool,
    no_evaluator: bool,
    log: Literal["text", "json"] | None,
    verbose: bool,
) -> None:
    """Serve a federation, and show its progress.

    CONFIG is the YAML file that describes it. Ctrl-C stops the server; the same command
    continues the run.
    """
    log = log or ("text" if sys.stdout.isatty() else "json")
    log_to_stderr(verbose, as_json=log == "json")
    from fedrun.cli.stoppable import stoppable
    from fedrun.config import load_config
    from fedserver.serving import serve

    federation, ended = load_config(config, changes), None
    with suppress(KeyboardInterrupt), stoppable():  # before and after it serves
        ended = serve(
            federation,
            config.resolve().parent,
            amend=amend,
            must_resume=must_resume,
            evaluator=not no_evaluator,
            log=log,
        )
    folder = federation.server.journal
    if ended is None:
        click.echo(f"stopped; the same command resumes {folder}", err=True)
    else:
        click.echo(f"ended: {ended}; look at it: fedserver report {folder}", err=True)


@main.command(
    epilog=example("fedserver status 127.0.0.1:8443", "fedserver status runs/digits")
)
@RUN_OR_HOST
@trust_options
@json_option
@in_sentences
def status(run: str, as_json: bool, **trust: Any) -> None:
    """Show what a running server and its clients do.

    RUN is the folder of the run that it serves; HOST is where it listens.
    """
    from fedserver.operator.remote import ask_status
    from fedserver.view.status import status_table

    found = ask_status(run, **trust)
    if as_json:
        click.echo(to_json(found, indent=2))
        return
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDE  # a pipe gets whole names
    Console(width=width).print(status_table(found))


@main.command(epilog=example("fedserver healthcheck 127.0.0.1:8443"))
@click.argument("host")
@trust_options
@in_sentences
def healthcheck(host: str, **trust: Any) -> None:
    """Exit with status 0 if a server is healthy.

    Use it as the health probe of a container.
    """
    from fedserver.operator.health import ask_health

    click.echo(ask_health(host, **trust))


add_acts(main)


@main.command(epilog=example("fedserver free runs/digits hospital-3"))
@RUN
@click.argument("client")
@methods_option
@in_sentences
def free(run: Path, client: str) -> None:
    """Free a client's name, so that another can take it.

    RUN is the folder of the run; its server may be running. The next client that joins
    with the name CLIENT gets it.
    """
    from fedserver.operator.remote import free as let_go

    if not let_go(run, client):
        raise ConfigError(f"{run}: no client has the name {client!r}")
    click.echo(f"the name {client!r} is free")


@main.command(epilog=example("fedserver report runs/digits"))
@RUN
@methods_option
@out_option("The page to write. Without it, report.html in the folder of the run.")
@in_sentences
def report(run: Path, out: Path | None) -> None:
    """Write a report of a run: one HTML page.

    RUN is the folder of the run. The page needs no network.
    """
    from fedview.report import write_report

    click.echo(write_report(run, out))


@main.command(
    epilog=example(
        "fedserver export runs/digits --which best -o best.safetensors",
        "fedserver export runs/lora --adapter -o adapter",
    )
)
@RUN
@click.option(
    "--which",
    type=_Which(["last", "best", "exact", "initial"]),
    default="last",
    show_default=True,
    metavar="MODEL",
    help="The model to write: last, which is what clients hold; best; exact, which is "
    "the server's own model before compression; initial; or the number of a version "
    "that the run still holds.",
)
@methods_option
@out_option("The file to write; with --adapter, the folder.", required=True)
@section(
    OUTPUT,
    click.option(
        "--adapter",
        is_flag=True,
        help="Write a folder that PEFT loads. The model is an adapter, such as LoRA's.",
    ),
)
@in_sentences
def export(run: Path, which: str, out: Path, adapter: bool) -> None:
    """Write a model of a run as a file, or as a PEFT adapter.

    RUN is the folder of the run.
    """
    from fedview.export import export_adapter, export_model

    write = export_adapter if adapter else export_model
    is_version = which.isdecimal()
    version = int(which) if is_version else None
    click.echo(write(run, out, "last" if is_version else which, version))


main.add_command(journal_commands, "journal")


@main.command(epilog=example("fedserver backup runs/digits /backups/digits"))
@RUN
@click.argument("target", type=PATH)
@in_sentences
def backup(run: Path, target: Path) -> None:
    """Copy a run, even while its server is running.

    RUN is the folder of the run, TARGET the folder of the copy. A later backup to the
    same TARGET copies only what is new.
    """
    from fedrun.journal import backup as copy

    number = copy(run, target)
    click.echo(f"{target} holds all {number} records of {run}")


@main.command(epilog=example("fedserver restore /backups/digits runs/digits"))
@click.argument("source", type=PATH)
@RUN
@methods_option
@in_sentences
def restore(source: Path, run: Path) -> None:
    """Restore a run from a backup.

    SOURCE is the backup, RUN the folder of the run. Clients take back the updates that
    the backup does not hold.
    """
    from fedrun.journal import restore as bring_back
    from fedrun.run import fresh_name

    epoch = bring_back(source, run, fresh_name)
    click.echo(f"{run} is restored from {source}; its history is now {epoch}")
