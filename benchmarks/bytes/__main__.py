"""``python -m benchmarks.bytes``: accuracy against bytes at the socket."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.bytes.federation import Outcome, Plan, federate
from benchmarks.bytes.report import Row, show, show_items
from benchmarks.bytes.settings import SETTINGS, Setting
from benchmarks.bytes.tasks import TASKS
from benchmarks.series import after
from benchmarks.speed.measure import machine
from fedcore.errors import LatecomerError
from fedcore.typing import JSON
from fedrun.cli.exit_codes import exit_code

RESULTS = Path(__file__).parent.parent / "results" / "bytes.json"
DATA = "LATECOMER_DATA"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a task under all settings that are asked for."""
    options = _options(arguments)
    task = TASKS[options.task]
    rounds = options.rounds or task.rounds
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        plan = Plan(
            task=task,
            rounds=rounds,
            folder=Path(folder),
            data=str(Path(options.data).resolve()),
            processes=options.processes,
        )
        rows = {}
        try:
            for name, row in run(plan, options, console):
                rows[name] = row
                if options.save:
                    save(options.task, rounds, {name: row})
        except LatecomerError as error:
            print(f"error: {error}", file=sys.stderr)
            return exit_code(error)
    title = f"{task.title}; {task.clients} clients, {task.cohort} a round, {rounds}"
    show(console, f"{title} rounds, {options.seeds} seeds", rows)
    if options.where:
        for name, row in rows.items():
            show_items(console, name, row)
    return 0


def run(
    plan: Plan, options: argparse.Namespace, console: Console
) -> Iterator[tuple[str, Row]]:
    """Every setting with every seed; uncompressed is always the first of them."""
    plan.task.share(plan.data, plan.task.clients, 0)  # absent data is told at once
    asked = options.settings or [setting.name for setting in SETTINGS]
    chosen = [s for s in SETTINGS if s is SETTINGS[0] or s.name in asked]
    tests: dict[str, tuple[Setting, float]] = {s.name: (s, 0.0) for s in chosen}
    if options.cut:
        word = f", {options.cut:.0%} cut"
        tests |= {s.name + word: (s, options.cut) for s in chosen}
    reference: list[Outcome] = []
    for name, (setting, cut) in tests.items():
        with console.status(name):
            outcomes = [
                federate(plan, setting, seed, cut) for seed in range(options.seeds)
            ]
        reference = reference or outcomes
        yield name, Row(outcomes, reference)


def save(task: str, rounds: int, rows: dict[str, Row]) -> None:
    """Writes all of it, beside earlier runs of the same tasks and settings."""
    kept = read()
    before = kept.get(task, {})
    settings = before.get("settings", {}) if before.get("rounds") == rounds else {}
    for name, row in rows.items():
        run = {"machine": machine(), **row.to_json()}
        settings[name] = after(settings.get(name), run)
    kept[task] = before | {
        "title": TASKS[task].title,
        "rounds": rounds,
        "settings": settings,
    }
    write(kept)


def read() -> JSON:
    """What is known of each task."""
    return _file().get("tasks", {})


def write(kept: JSON) -> None:
    """Writes what is known of all tasks."""
    told = {"tasks": {n: kept[n] for n in TASKS if n in kept}}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _file() -> JSON:
    kept: JSON = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    return kept


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes")
    parser.add_argument("--task", choices=TASKS, default="mlp")
    parser.add_argument(
        "--settings",
        nargs="*",
        choices=[setting.name for setting in SETTINGS],
        help="beside uncompressed; all if not said",
    )
    parser.add_argument("--seeds", type=int, default=3, help="so many; 3 if not said")
    parser.add_argument("--rounds", type=int, help="instead of the task's own")
    parser.add_argument(
        "--cut",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="run all settings once more while this share of uploads breaks",
    )
    parser.add_argument(
        "--data",
        default=os.environ.get(DATA, "data"),
        metavar="FOLDER",
        help=f"of fashion_mnist.npz and shoulder_smartwatch.npz; or ${DATA}",
    )
    parser.add_argument("--folder", type=Path, help="for the runs, while they last")
    parser.add_argument("--processes", type=int, default=2, help="that clients share")
    parser.add_argument("--where", action="store_true", help="where the bytes go")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
