"""``python -m benchmarks.netlab``: federations over bad links."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.netlab import tool
from benchmarks.netlab.links import lab
from benchmarks.netlab.report import COLUMNS, LONG, rows, sooner
from benchmarks.netlab.ways import OURS, TARGET, UNCOMPRESSED, WAYS
from benchmarks.series import join
from benchmarks.speed.measure import machine
from benchmarks.tables import show
from fedcore.errors import LatecomerError
from fedcore.typing import JSON
from fedrun.cli.command import PATH, example, in_sentences

RESULTS = Path(__file__).parent.parent / "results" / "netlab.json"
STARTS = 480.0  # seconds that a lab lives longer than its federation


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example(
        "python -m benchmarks.netlab --netlab TOOL --seeds 3 --save",
        "python -m benchmarks.netlab --netlab TOOL --long --minutes 30",
    ),
)
@click.option(
    "--netlab",
    type=PATH,
    metavar="TOOL",
    envvar=tool.VARIABLE,
    help="The tool that gives each host a network namespace with a shaped link; or "
    f"${tool.VARIABLE}.",
)
@click.option(
    "--way",
    "ways",
    multiple=True,
    type=click.Choice(list(WAYS)),
    help=f"A federation; several times for several. Without it, {OURS} and "
    f"{UNCOMPRESSED}.",
)
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--first-seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--long",
    "is_long",
    is_flag=True,
    help=f"{OURS} alone, for --minutes: do the books balance after so many cuts?",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0.5, 50),
    default=30.0,
    show_default=True,
    help="The longest time of a federation.",
)
@click.option("--folder", type=PATH, help="Keeps the runs there.")
@click.option("--save", is_flag=True, help=f"Write {RESULTS.name}.")
@in_sentences
def main(
    netlab: Path | None,
    ways: tuple[str, ...],
    seeds: int,
    first_seed: int,
    minutes: float,
    folder: Path | None,
    *,
    is_long: bool,
    save: bool,
) -> None:
    """Run federations over bad links, one after the other on the same ones."""
    found_tool = tool.find(netlab)
    chosen = [OURS] if is_long else list(ways or (OURS, UNCOMPRESSED))
    found: dict[str, list[JSON]] = {way: [] for way in chosen}
    with tempfile.TemporaryDirectory() as temporary:
        place = (folder or Path(temporary)).resolve()
        for seed in range(first_seed, first_seed + seeds):
            for way in chosen:
                plan = {
                    "way": way,
                    "seed": seed,
                    "seconds": 60 * minutes,
                    "to_target": not is_long,
                }
                found[way].append(run(found_tool, plan, place))
                _tell(way, found[way][-1])
    title = "The long run" if is_long else "Over six bad links"
    console = Console(width=160, highlight=False)
    show(console, title, COLUMNS, rows(found))
    console.print(sooner(found))
    if save:
        told = {"target": TARGET, "machine": machine()}
        titles = {way: LONG if is_long else way for way in chosen}
        kept = {titles[way]: {**told, "runs": runs} for way, runs in found.items()}
        join(RESULTS, kept)
    if not all(row["books"]["balance"] for runs in found.values() for row in runs):
        raise SystemExit(1)


def run(path: Path, plan: dict[str, Any], place: Path) -> JSON:
    """Plays a plan on hosts of its own; returns what came of it.

    Raises:
        LatecomerError: it did not come to its end.
    """
    name = f"{plan['way'].replace(', ', '-').replace(' ', '-')}-{plan['seed']}"
    folder = place / name
    folder.mkdir(parents=True)
    file = folder / "plan.json"
    file.write_text(json.dumps(plan), "utf-8")
    words = ["benchmarks.netlab.inside", str(file)]
    status = tool.up(path, lab(plan["seed"]), plan["seconds"] + STARTS, words)
    out = file.with_suffix(".out")
    if status or not out.is_file():
        raise LatecomerError(f"{name} ended with status {status}; see {folder}")
    told: JSON = json.loads(out.read_text("utf-8"))
    return told


def _tell(way: str, row: JSON) -> None:
    """A line on the way."""
    when = "not reached" if row["seconds"] is None else f"{row['seconds']:.0f} s"
    books = "the books balance" if row["books"]["balance"] else "THE BOOKS DO NOT"
    print(f"{way}, seed {row['seed']}: {when}, {books}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.netlab")
