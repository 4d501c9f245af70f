"""``python -m benchmarks.pairs COMMIT``: this checkout's speed beside a commit's.

Both states are built in the same way, with one interpreter and the same libraries, and
each task runs in both of them in turn. A pair's ratio is that of the processor's
seconds. A task is slower if its mean ratio exceeds 1.03 and its interval lies above 1;
the exit status is then 1. Pairs are added until that or the contrary is certain, up to
a limit; the intervals are of 98.3 %, since there are three looks. A wait for the disk
or for another process takes no processor's time, and is not seen.
"""

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.asynchrony.__main__ import DATA
from benchmarks.codecs.__main__ import ONE_THREAD
from benchmarks.series import join
from benchmarks.simulation.problems import PROBLEMS
from benchmarks.simulation.tasks import ADA_SGD, BUFFERED, TOP_K, UNEQUAL
from benchmarks.speed.measure import machine
from benchmarks.speed.processes import Helper
from fedcore.errors import WorkloadError
from fedcore.typing import JSON, Seconds
from fedstudies.statistics import Estimate, estimate

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "pairs.json"
ALLOWED = 1.03  # of the time that the commit takes
LEVEL = 1 - 0.05 / 3  # of the intervals, for three looks at the pairs

# The course of a simulation has the processor's clock in place of that of the wall.
SIMULATES = """
import runpy, time, types
from benchmarks.simulation.peers import problem
problem.time = types.SimpleNamespace(monotonic=time.process_time)
runpy.run_module("benchmarks.simulation.ours", run_name="__main__")
"""
# A server under load; a line from outside is a round, answered with its seconds.
SERVES = """
import sys, tempfile
from contextlib import ExitStack
from pathlib import Path
from benchmarks.speed.measure import Scale
from benchmarks.speed.server import TRAFFIC, Peer, config, load, save_zeros
from tools.local import LocalFederation
traffic, scale = TRAFFIC[int(sys.argv[1])], Scale(1, sys.argv[2] == "quick")
with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
    model = Path(folder) / "model.safetensors"
    save_zeros(model, scale.of(1_000_000, 10_000))
    local = LocalFederation(Path(folder), config(traffic.algorithm, scale), app="")
    federation = stack.enter_context(local)
    server = federation.server("--no-evaluator").process
    peer = Peer(server.pid, stack.enter_context(
        load(federation.address, str(model), traffic)))
    peer.load.ask(scale.of(traffic.before, 8))
    push = peer.work(scale.of(traffic.updates, 8))
    print(0, flush=True)
    for line in sys.stdin:
        push()
        print(peer.cpu[-1], flush=True)
"""


class State(NamedTuple):
    """The program as it was or is, built into a folder."""

    name: str
    checkout: Path
    built: Path

    @property
    def environment(self) -> dict[str, str]:
        """Its packages come first, then its benchmarks, then the libraries of both.

        Before all of them comes the working folder, which is therefore ``built``: the
        checkout has packages too, without compiled kernels.
        """
        paths = os.pathsep.join(map(str, (self.built, self.checkout)))
        return {**os.environ, **ONE_THREAD, "PYTHONPATH": paths}


Measure = Callable[[], Seconds]
Task = Callable[[State], AbstractContextManager[Measure]]


class Simulation(NamedTuple):
    """A federation that is simulated, for some seconds."""

    problem: str
    rounds: int
    settings: JSON


SIMULATIONS = {
    "A": Simulation("digits, 100", 3000, {}),
    "B": Simulation("digits, 1,000", 700, {}),
    "buffered": Simulation(
        "digits, 1,000",
        5000,
        {"algorithm": {**BUFFERED, **ADA_SGD}, "simulate": UNEQUAL},
    ),
    "top-k": Simulation("digits, 1,000", 250, {"algorithm": TOP_K}),
    "CNN": Simulation("fashion", 12, {}),
    "events": Simulation(
        "digits, 100", 250, {"simulate": {"engine": {"kind": "exact"}}}
    ),
}
TRAFFICS = {"ingest, dense": 0, "ingest, top-k": 1, "ingest, both ways": 2}
COMMANDS = {
    "start of fedserver": ("-m", "fedserver", "--help"),
    "start of fedclient": ("-m", "fedclient", "--help"),
    "start of fedsim": ("-m", "fedsim", "--help"),
    "start of a server": ("-c", "import fedserver.server"),
}
TASKS = (*SIMULATIONS, *TRAFFICS, *COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a task is slower than it was."""
    options = _options(arguments)
    console, found = Console(highlight=False), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        with console.status("building both states"):
            old = stack.enter_context(_built(options.base, folder))
            new = stack.enter_context(_built("", folder))
        for name in options.tasks or TASKS:
            with console.status(name):
                try:
                    task = _task(name, folder, options)
                except WorkloadError as error:  # a data set is not there
                    console.print(f"{name} is left out: {error}")
                    continue
                found[name] = in_pairs(task, old, new, options.pairs, options.most)
    show(console, options.base, found)
    if options.save:
        run = {"machine": machine(), "quick": options.quick, "ratios": found}
        join(RESULTS, {options.base: run})
    return int(any(map(is_slower, found.values())))


def in_pairs(task: Task, old: State, new: State, least: int, most: int) -> list[float]:
    """Returns the ratio of each pair; who comes first changes with every pair.

    Args:
        task: runs in both states.
        old: the commit's.
        new: this checkout's.
        least: the number of pairs at least.
        most: the number of pairs where fewer do not tell.
    """
    ratios = list[float]()
    with task(old) as before, task(new) as now:
        while len(ratios) < most and (len(ratios) % least or not is_certain(ratios)):
            order = (before, now) if len(ratios) % 2 else (now, before)
            seconds = {measure: measure() for measure in order}
            ratios.append(seconds[now] / seconds[before])
    return ratios


def mean_of(ratios: Sequence[float]) -> Estimate:
    """Returns the mean of their logarithms, with its interval."""
    return estimate([math.log(ratio) for ratio in ratios], LEVEL)


def is_slower(ratios: Sequence[float]) -> bool:
    """Returns whether a task takes more than it may, and not by chance."""
    found = mean_of(ratios)
    half = math.inf if found.half is None else found.half
    return found.mean > math.log(ALLOWED) and found.mean > half


def is_certain(ratios: Sequence[float]) -> bool:
    """Returns whether a task is slower, or is not with its whole interval."""
    if len(ratios) < 2:
        return False
    found = mean_of(ratios)
    half = math.inf if found.half is None else found.half
    return is_slower(ratios) or found.mean + half <= math.log(ALLOWED)


def show(console: Console, base: str, found: Mapping[str, Sequence[float]]) -> None:
    """Prints the mean ratio of each task."""
    title = f"processor's time, times that of {base}"
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "mean", "interval", "pairs", ""):
        grid.add_column(column, justify="right" if column else "left")
    for name, ratios in found.items():
        mean, half = mean_of(ratios)[:2]
        ends = [] if half is None else [math.exp(mean + s * half) for s in (-1, 1)]
        grid.add_row(
            name,
            f"{math.exp(mean):.3f}",
            " to ".join(f"{end:.3f}" for end in ends),
            " ".join(f"{ratio:.3f}" for ratio in ratios),
            "SLOWER" * is_slower(ratios),
        )
    console.print(grid)


# ------------------------------------------------------------------------- the states


@contextmanager
def _built(commit: str, scratch: Path) -> Iterator[State]:
    """Builds a commit in a worktree of its own; none: the checkout as it is."""
    checkout = scratch / "checkout" if commit else ROOT
    if commit:
        _call("git", "-C", ROOT, "worktree", "add", "-q", "--detach", checkout, commit)
    try:
        built = scratch / f"built-{commit or 'now'}"
        pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps")
        _call(*pip, "--target", built, checkout)
        yield State(commit or "now", checkout, built)
    finally:
        if commit:
            _call("git", "-C", ROOT, "worktree", "remove", "--force", checkout)


def _call(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr.strip()}")


# -------------------------------------------------------------------------- the tasks


def _task(name: str, folder: Path, options: argparse.Namespace) -> Task:
    if name in COMMANDS:
        return partial(_starts, COMMANDS[name])
    if name in TRAFFICS:
        return partial(_serves, TRAFFICS[name], "quick" if options.quick else "full")
    simulation = SIMULATIONS[name]
    problem = folder / f"{name}.npz"
    PROBLEMS[simulation.problem](options.data).save(problem)
    rounds = 8 if options.quick else simulation.rounds
    return partial(_simulates, simulation._replace(rounds=rounds), problem)


@contextmanager
def _simulates(
    simulation: Simulation, problem: Path, state: State
) -> Iterator[Measure]:
    outcome = problem.with_suffix(".outcome.npz")
    warm = max(1, simulation.rounds // 5)
    words = [str(problem), str(outcome), "--rounds", str(simulation.rounds)]
    words += ["--warm", str(warm), "--check", "0"]
    words += ["--settings", json.dumps(simulation.settings)]

    def measure() -> Seconds:
        _run(state, "-c", SIMULATES, *words)
        with np.load(outcome) as found:
            return float(found["last"] - found["warm"])

    yield measure


@contextmanager
def _serves(traffic: int, size: str, state: State) -> Iterator[Measure]:
    words = ("-c", SERVES, str(traffic), size)
    with Helper(*words, folder=state.built, environment=state.environment) as helper:
        yield lambda: float(helper.ask("go"))


@contextmanager
def _starts(words: Sequence[str], state: State) -> Iterator[Measure]:
    """The mean of some starts, after one that compiles the modules."""

    def measure() -> Seconds:
        return sum(_run(state, *words) for _ in range(5))

    _run(state, *words)
    yield measure


def _run(state: State, *words: str) -> Seconds:
    """Returns the processor's seconds of a Python process in a state."""
    before = _children()
    done = subprocess.run(
        [sys.executable, *words],
        cwd=state.built,
        env=state.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{state.name}: {done.stderr.strip()[-2000:]}")
    return _children() - before


def _children() -> Seconds:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs")
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)}; all if none"
    )
    parser.add_argument("--pairs", type=int, default=6, help="at least; 6 if not said")
    parser.add_argument("--most", type=int, default=18, help="pairs; 18 if not said")
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get(DATA, "data"),
        help=f"of fashion_mnist.npz, for the CNN; or ${DATA}",
    )
    parser.add_argument("--quick", action="store_true", help="tiny, to try it out")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    words = ("git", "-C", str(ROOT), "rev-parse", "--verify", "--short")
    commit = f"{options.base or 'none'}^{{commit}}"
    found = subprocess.run(
        [*words, commit], capture_output=True, text=True, check=False
    )
    if found.returncode:
        parser.error(f"no commit {options.base!r}: {found.stderr.strip()}")
    options.base = found.stdout.strip()
    for task in options.tasks:
        if task not in TASKS:
            parser.error(f"no task {task!r}; there are {', '.join(TASKS)}")
    return options


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave nothing behind
    sys.exit(main())
