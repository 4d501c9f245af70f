"""``python -m benchmarks.hospitals``: the drill of eight hospitals."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console

from benchmarks.hospitals import processes, simulated
from benchmarks.hospitals.report import COLUMNS, rows
from benchmarks.hospitals.schedule import HORIZON, Minutes
from benchmarks.hospitals.ways import WAYS
from benchmarks.series import join
from benchmarks.speed.measure import machine
from benchmarks.tables import show
from fedcore.typing import JSON, Seconds
from fedrun.cli.command import PATH, example, in_sentences

RESULTS = Path(__file__).parent.parent / "results" / "hospitals.json"
FORMS = ("simulated", "processes")


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example(
        "python -m benchmarks.hospitals --save",
        "python -m benchmarks.hospitals --form processes --minute 0.5",
    ),
)
@click.option(
    "--form",
    "forms",
    multiple=True,
    type=click.Choice(FORMS),
    help="Simulated, with real processes, or without this option both.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Of the simulation.",
)
@click.option(
    "--drills",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Seeds with real processes, all at the same time.",
)
@click.option(
    "--minute",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a minute of the schedule is with real processes.",
)
@click.option(
    "--horizon",
    type=click.FloatRange(60),
    default=HORIZON,
    show_default=True,
    metavar="MINUTES",
    help="How long the run is.",
)
@click.option("--folder", type=PATH, help="Keeps the runs there.")
@click.option("--save", is_flag=True, help=f"Write {RESULTS.name}.")
@in_sentences
def main(
    forms: tuple[str, ...],
    seeds: int,
    drills: int,
    minute: float,
    horizon: float,
    folder: Path | None,
    *,
    save: bool,
) -> None:
    """Play the drill under three rules of when a version is made."""
    console, failed = Console(width=200, highlight=False), False
    with tempfile.TemporaryDirectory() as temporary:
        place = (folder or Path(temporary)).resolve()
        for form in forms or FORMS:
            found: dict[str, list[JSON]] = {}
            for way in WAYS:
                console.print(f"{form}: {way}")
                under = place / form / way.replace(" ", "-")
                if form == "processes":
                    found[way] = played(way, drills, under, minute, horizon, console)
                    failed |= not all(row["books"]["balance"] for row in found[way])
                else:
                    found[way] = [
                        simulated.play(way, seed, under / str(seed), horizon)
                        for seed in range(seeds)
                    ]
            show(console, form, COLUMNS, rows(found))
            if save:
                told = {"machine": machine(), "horizon": horizon}
                join(RESULTS, {form: {**told, "ways": found}})
    if failed:
        console.print("THE BOOKS DO NOT BALANCE")
        raise SystemExit(1)


def played(
    way: str,
    seeds: int,
    folder: Path,
    minute: Seconds,
    horizon: Minutes,
    console: Console,
) -> list[JSON]:
    """Plays so many seeds with real processes, all at the same time."""

    def drill(seed: int) -> JSON:
        def say(line: str) -> None:
            console.print(f"{seed}: {line}")

        return processes.play(way, seed, folder / str(seed), minute, horizon, say)

    with ThreadPoolExecutor(seeds) as pool:
        return [*pool.map(drill, range(seeds))]


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.hospitals")
