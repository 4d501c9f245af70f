"""``python -m benchmarks.simulation``: updates a second, start and memory.

``python -m benchmarks.simulation install`` makes the peers' environments. Contenders
run in turn, each with one thread a process for arithmetic, forwards and then backwards,
so that a slow minute affects all of them; figures are medians over the runs.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.series import after
from benchmarks.simulation.environments import (
    ENVIRONMENTS,
    absent,
    default_folder,
    install,
)
from benchmarks.simulation.goals import goals
from benchmarks.simulation.peers.networks import accuracy
from benchmarks.simulation.peers.problem import Problem
from benchmarks.simulation.problems import PROBLEMS
from benchmarks.simulation.race import Outcome, RaceError, race
from benchmarks.simulation.report import Row, Rows, show, to_json
from benchmarks.simulation.tasks import TASKS, Contender, Task
from benchmarks.speed.measure import machine
from fedcore.errors import LatecomerError
from fedcore.typing import JSON
from fedrun.cli.exit_codes import exit_code

RESULTS = Path(__file__).parent.parent / "results" / "simulation.json"
INSTALL = "install"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tasks that are named, or A and B."""
    options = _options(arguments)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    if options.tasks == [INSTALL]:
        return install_all(options, console)
    found: dict[str, JSON] = {}
    for name in options.tasks or ["A", "B"]:
        task, where = TASKS[name], machine()
        try:
            rows = run(task, options, console)
        except LatecomerError as error:
            print(f"error: {error}", file=sys.stderr)
            return exit_code(error)
        show(console, f"{task.title}; accuracy after {task.check} rounds", rows)
        targets = goals(name, rows)
        for target in targets:
            console.print(f"  {target}")
        found[name] = {
            "title": task.title,
            "machine": where,
            "repetitions": options.repetitions,
            "rows": to_json(rows),
            "targets": [target.to_json() for target in targets],
        }
    if options.save:
        save(found)
    return 0


def install_all(options: argparse.Namespace, console: Console) -> int:
    """Makes every environment; says which could not be made, and why."""
    for name in ENVIRONMENTS:
        with console.status(name):
            problem = install(options.environments, name, options.python)
        console.print(f"{name}: {problem or 'installed'}")
    return 0


def run(task: Task, options: argparse.Namespace, console: Console) -> Rows:
    """All contenders of a task, in turn."""
    chosen = {
        name: contender
        for name, contender in task.contenders.items()
        if not options.only or any(word in name for word in options.only)
    }
    reasons = {name: _absence(c, options.environments) for name, c in chosen.items()}
    runs: dict[str, list[Outcome]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as folder:
        problems = dict(_problems(chosen, Path(options.data), Path(folder)))
        for number in range(options.repetitions):
            for name in list(chosen)[:: -1 if number % 2 else 1]:
                if reasons[name]:
                    continue
                path = Path(folder) / f"{chosen[name].problem}.npz"
                with console.status(f"{name}, {number + 1} of {options.repetitions}"):
                    try:
                        outcome = race(
                            chosen[name],
                            path,
                            options.environments,
                            chosen[name].check or task.check,
                            options.patience,
                        )
                    except RaceError as failure:
                        reasons[name] = str(failure)
                        continue
                runs[name].append(outcome)
    return {
        name: reasons[name] or _row(problems[chosen[name].problem], runs[name])
        for name in chosen
    }


def _absence(contender: Contender, environments: Path) -> str:
    if not contender.environment:
        return ""
    return absent(environments, contender.environment)


def _problems(
    chosen: dict[str, Contender], data: Path, folder: Path
) -> Iterator[tuple[str, Problem]]:
    for name in {contender.problem for contender in chosen.values()}:
        problem = PROBLEMS[name](data)
        problem.save(folder / f"{name}.npz")
        yield name, problem


def _row(problem: Problem, outcomes: list[Outcome]) -> Row:
    return Row(outcomes, [accuracy(problem, outcome.weights) for outcome in outcomes])


def save(found: dict[str, JSON]) -> None:
    """Writes the values of every repetition, beside those of earlier runs."""
    kept = {}
    if RESULTS.is_file():
        kept = json.loads(RESULTS.read_text())["tasks"]
    kept |= {name: after(kept.get(name), run) for name, run in found.items()}
    told = {"tasks": {name: kept[name] for name in TASKS if name in kept}}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation")
    parser.add_argument(
        "tasks", nargs="*", type=_task, help=f"of {', '.join(TASKS)}; A and B if none"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="contenders with one of these words"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="3 if not said")
    parser.add_argument(
        "--environments",
        type=Path,
        default=default_folder(),
        help="the folder of the peers' environments",
    )
    parser.add_argument(
        "--python", nargs="*", default=[], help="interpreters for `install` to try"
    )
    parser.add_argument("--data", default="data", help="the folder of Fashion-MNIST")
    parser.add_argument(
        "--patience", type=float, default=300.0, help="seconds that a run may take"
    )
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args(arguments)


def _task(text: str) -> str:
    if text not in {*TASKS, INSTALL}:
        raise argparse.ArgumentTypeError(
            f"no task {text!r}; there are {', '.join(TASKS)}, and {INSTALL}"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
