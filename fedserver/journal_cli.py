"""``fedserver journal``: look at the log of a run, check it, ask what if."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fedcore.errors import ConfigError
from fedcore.text import printable
from fedrun.command import in_sentences

RUN = click.argument("run", type=click.Path(path_type=Path))


@click.group()
def journal_commands() -> None:
    """Look at a run's journal, check it, or ask what if."""


@journal_commands.command()
@RUN
@click.option("--kind", help="Only records of this kind, such as decided.")
@click.option("--client", help="Only records of the client of this name.")
@click.option("--after", type=int, default=0, help="Only records behind this number.")
@click.option("--limit", type=int, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
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
    from fedrun.journal.codec import KINDS

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
            json.dumps({"number": number, **facts})
            if as_json
            else printable(_line(number, facts))
        )
        shown += 1
        if limit is not None and shown >= limit:
            break
    if not shown:
        _require("--client", client, clients)


@journal_commands.command()
@RUN
@click.option(
    "--no-decisions",
    is_flag=True,
    help="Do not make the decisions anew (another machine may round otherwise).",
)
@in_sentences
def verify(run: Path, no_decisions: bool) -> None:
    """Check every record, digest and decision that is kept."""
    from fedrun.journal import Journal
    from fedrun.journal import verify as check

    journal = Journal.open(run, read_only=True)
    try:
        found = check(journal, decisions=not no_decisions)
    finally:
        journal.close()
    click.echo(
        f"{found.records} records are sound; version {found.versions} has digest "
        f"{found.digest}\n{found.accepted} updates accepted, {found.applied} in the "
        f"model, {found.waiting} in the buffer, none twice; {found.recomputed} "
        "decisions made anew, all the same"
    )


@journal_commands.command()
@RUN
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value than the config's, such as algorithm.buffer=8.",
)
@click.option("--without", multiple=True, metavar="CLIENT", help="Leave a client out.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the model.")
@in_sentences
def replay(
    run: Path, changes: tuple[str, ...], without: tuple[str, ...], out: Path | None
) -> None:
    """Decide anew, with other settings or without some clients.

    The clients' updates are those that were received: what they would have trained
    on another model is a question for fedsim (simulate.arrivals).
    """
    from fedrun.whatif import ask

    for line in ask(run, changes, without, out):
        click.echo(line)


@journal_commands.command()
@RUN
@in_sentences
def repair(run: Path) -> None:
    """Cut off what is damaged, keep it aside, and begin a new history.

    Clients take back what is lost. A backup that is newer than the damage is better.
    """
    from fedrun.journal import repair as mend
    from fedrun.run import fresh_name

    click.echo(mend(run, fresh_name()))


@journal_commands.command()
@RUN
@click.argument("folder", type=click.Path(path_type=Path))
@in_sentences
def export(run: Path, folder: Path) -> None:
    """Write the tables of a run as CSV files into FOLDER."""
    from fedrun.export import export_tables

    for path in export_tables(run, folder):
        click.echo(path)


def _require(option: str, given: str | None, known: set[str]) -> None:
    """A filter that nothing can pass is a typo."""
    if given is not None and given not in known:
        raise ConfigError(
            f"{option} {given}: unknown; there are {', '.join(sorted(known)) or 'none'}"
        )


def _facts(run: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records as plain data, with their clients' names."""
    from fedcore.coordinator.records import Admitted
    from fedrun.journal import Journal
    from fedrun.journal.codec import to_row

    names: dict[str, str] = {}
    journal = Journal.open(run, read_only=True)
    try:
        for number, record in journal.store.entries(payloads=False):
            if isinstance(record, Admitted):
                names[record.cid] = record.name
            kind, body, _ = to_row(record)
            facts = {"kind": kind, **json.loads(body)}
            if "cid" in facts:
                facts["client"] = names.get(facts["cid"], facts["cid"])
            yield number, facts
    finally:
        journal.close()


def _line(number: int, facts: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(facts.pop("at"), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    kind, client = facts.pop("kind"), facts.pop("client", "")
    for long in ("config", "spec", "cid", "counts"):
        facts.pop(long, None)
    rest = " ".join(f"{k}={_short(v)}" for k, v in facts.items() if v not in (None, ""))
    return f"{number:8d}  {at[:-3]}  {kind:<11} {client:<12} {rest}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
