"""``fedserver journal replay``: what the model would have been."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedcore.errors import ConfigError
from fedcore.text import printable
from fedrun.cli.command import (
    PATH,
    app_option,
    example,
    in_sentences,
    json_option,
    methods_option,
    out_option,
    say,
    set_option,
)
from fedrun.cli.help import OUTPUT, command, section
from fedrun.cli.plain_json import to_json

if TYPE_CHECKING:  # a command that does not need them starts sooner
    from fedcore.typing import JSON
    from fedview.results.tables import Table


@command(
    epilog=example(
        "fedserver journal replay runs/digits --without client-17 \\",
        "    --app my_app:workload --page without-17.html",
        "fedserver journal replay runs/digits --each --app my_app:workload",
    )
)
@click.argument("run", type=PATH)
@set_option
@click.option(
    "--without",
    multiple=True,
    metavar="CLIENT",
    help="Leave this client out. May be given several times.",
)
@click.option(
    "--each",
    is_flag=True,
    help="Leave each client out in turn; rank them where that can be trusted.",
)
@app_option(otherwise=" Its test data evaluate the models, in a process of its own.")
@click.option(
    "--metric", help="Rank the clients of --each by this metric. Without it, by loss."
)
@methods_option
@out_option("Write the model to this file.")
@section(
    OUTPUT,
    click.option("--page", type=PATH, help="Write the comparison to this HTML file."),
)
@json_option
@in_sentences
def replay(
    run: Path,
    changes: tuple[str, ...],
    without: tuple[str, ...],
    each: bool,
    app: str | None,
    metric: str | None,
    out: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Replay a run with other settings or fewer clients.

    The updates stay those that the server received, and without a client the rounds
    stay as they were. To train clients again on the other models, use a simulation with
    simulate.arrivals.
    """
    from fedserver.children import evaluate_models
    from fedview.what_if import compare, evaluate_both, rank, write_page
    from fedview.what_if.progress import bar

    evaluate = None if app is None else partial(evaluate_models, app)
    if each and (without or out):
        raise ConfigError("--each excludes --without and --out")
    if metric and not each:
        raise ConfigError("--metric: is for --each")
    for option, path in (("--out", out), ("--page", page)):
        if path is not None and path.is_dir():
            raise ConfigError(f"{option} {path}: is a folder, not a file")
    if each:
        with bar("replays") as progress:
            ranked = rank(run, changes, evaluate, metric, progress)
        _print(ranked.to_json(), [*_ranking(ranked.table), *ranked.sentences], as_json)
        if page is not None:
            click.echo(f"{write_page(ranked, page)}: the ranking", err=as_json)
        return
    with bar("records") as progress:
        found = compare(run, changes, without, progress)
    if evaluate is not None:
        found = evaluate_both(found, evaluate)
    _print(found.to_json(), found.sentences, as_json)
    if out is not None:
        found.replayed.save(out)
        click.echo(f"{out}: the model of the replay", err=as_json)
    if page is not None:
        click.echo(f"{write_page(found, page)}: the comparison", err=as_json)


def _print(found: "JSON", lines: Sequence[str], as_json: bool) -> None:
    """Prints a comparison, for a program or for a person."""
    if as_json:
        click.echo(to_json(found))
        return
    for line in lines:
        say(printable(line))


def _ranking(table: "Table") -> list[str]:
    """The lines of a ranking, which leaves out a column for each class."""
    short = {name: own for name, own in table.items() if not name.startswith("recall_")}
    where = ["--page and --json also have the recall of each class"]
    return [*_rows(short), *(where if len(short) < len(table) else ())]


def _rows(table: "Table") -> list[str]:
    """The lines of a table: its head, and a line for each row."""
    cells = [[*table], *(map(_cell, row) for row in zip(*table.values(), strict=True))]
    texts = [[str(cell) for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in texts
    ]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
