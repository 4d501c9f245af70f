"""``fedserver journal``: commands that print, check, replay or repair a journal."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fedcore.errors import ConfigError
from fedcore.text import printable
from fedrun.cli.command import (
    PATH,
    example,
    in_sentences,
    json_option,
    methods_option,
    out_option,
)
from fedrun.cli.help import Group
from fedrun.cli.plain_json import to_json
from fedserver.operator.replay_cli import replay

RUN = click.argument("run", type=PATH)


@click.group(
    cls=Group, example="fedserver journal verify runs/digits", page="operations.md"
)
def journal_commands() -> None:
    """Read, check or repair a run's journal."""


@journal_commands.command(
    epilog=example("fedserver journal show runs/digits --kind decided --limit 10")
)
@RUN
@click.option("--kind", help="Print only records of this kind, such as decided.")
@click.option("--client", help="Print only records of the client with this name.")
@click.option(
    "--after", type=int, default=0, help="Print only records after this number."
)
@click.option("--limit", type=int, help="Print at most this many records.")
@json_option
@in_sentences
def show(
    run: Path,
    kind: str | None,
    client: str | None,
    after: int,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the records of a run."""
    from fedrun.journal.store import KINDS

    _require("--kind", kind and kind.lower(), {name.lower() for name in KINDS})
    shown = 0
    clients: set[str] = set()
    for number, facts in _facts(run):
        if "client" in facts:
            clients.add(facts["client"])
        wanted = (
            number > after
            and (kind is None or facts["kind"].lower() == kind.lower())
            and (client is None or facts.get("client") == client)
        )
        if not wanted:
            continue
        click.echo(
            to_json({"number": number, **facts})
            if as_json
            else printable(_line(number, facts))
        )
        shown += 1
        if limit is not None and shown >= limit:
            break
    if not shown:
        _require("--client", client, clients)


@journal_commands.command(epilog=example("fedserver journal verify runs/digits"))
@RUN
@click.option(
    "--no-decisions",
    is_flag=True,
    help="Do not compute the decisions again (another machine may round differently).",
)
@methods_option
@in_sentences
def verify(run: Path, no_decisions: bool) -> None:
    """Check every file, record, digest and decision.

    What has no checksum is named.
    """
    from fedrun.journal import Journal
    from fedrun.journal import verify as check

    with closing(Journal.open(run, read_only=True)) as journal:
        found = check(journal, decisions=not no_decisions)
    click.echo(
        f"{found.records} records are sound; version {found.versions} has digest "
        f"{found.digest}\n{found.accepted} updates accepted, {found.applied} in the "
        f"model, {found.waiting} in the buffer, none twice; {found.recomputed} "
        "decisions made again, all the same\n"
        f"checked: {', '.join(found.contents.checked)}\n"
        f"not checked: {printable(', '.join(found.contents.unchecked)) or 'nothing'}"
    )


@journal_commands.command(epilog=example("fedserver journal repair runs/digits"))
@RUN
@methods_option
@in_sentences
def repair(run: Path) -> None:
    """Cut off a damaged end, and start a new history.

    The damaged records are kept aside, and clients take back the updates that are lost.
    Damaged payloads before the newest snapshot are let go; no model is lost with them.
    If there is a backup from after the damage, restore that instead.
    """
    from fedrun.journal import repair as mend
    from fedrun.run import fresh_name

    click.echo(mend(run, fresh_name()))


journal_commands.add_command(replay)


@journal_commands.command(epilog=example("fedserver journal export runs/digits"))
@RUN
@out_option("The folder to write the tables to.", "tables")
@in_sentences
def export(run: Path, out: Path) -> None:
    """Write the tables of a run as CSV files.

    RUN is the folder of the run. Where pyarrow is installed, the tables are written as
    Parquet as well.
    """
    from fedview.export import export_tables

    for path in export_tables(run, out):
        click.echo(path)


def _require(option: str, given: str | None, known: set[str]) -> None:
    """Refuses a filter that no record can pass: it is a typo.

    Raises:
        ConfigError: ``given`` is not among ``known``.
    """
    if given is not None and given not in known:
        raise ConfigError(
            f"{option} {given}: unknown; there are {', '.join(sorted(known)) or 'none'}"
        )


def _facts(run: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the records as plain data, with their clients' names."""
    from fedcore.coordinator.events import Enrolled
    from fedrun.journal import Journal
    from fedrun.journal.store import facts_of

    names: dict[str, str] = {}
    with closing(Journal.open(run, read_only=True)) as journal:
        for number, record in journal.store.entries(payloads=False):
            if isinstance(record, Enrolled):
                names[record.cid] = record.name
            facts = {"kind": type(record).__name__, **facts_of(record)}
            if "cid" in facts:
                facts["client"] = names.get(facts["cid"], facts["cid"])
            yield number, facts


def _line(number: int, facts: dict[str, Any]) -> str:
    at = _time(facts.pop("at"))
    kind, client = facts.pop("kind"), facts.pop("client", "")
    for long in ("config", "spec", "cid", "counts"):
        facts.pop(long, None)
    rest = " ".join(f"{k}={_short(v)}" for k, v in facts.items() if v not in (None, ""))
    return f"{number:8d}  {at}  {kind:<11} {client:<12} {rest}"


def _time(at: float) -> str:
    """Returns a time; seconds where no calendar has it."""
    try:
        shown = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except (OSError, OverflowError, ValueError):
        return f"{at:<23.4g}"
    return shown[:-3]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
