"""One run of a contender: a process tree, and the watch on its time and memory."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.codecs.__main__ import ONE_THREAD
from benchmarks.simulation.environments import python_of
from benchmarks.simulation.peers.problem import WEIGHTS, Weights
from benchmarks.simulation.tasks import Contender
from benchmarks.speed.processes import ROOT, resident_megabytes
from fedcore.typing import Seconds

PERIOD: Seconds = 0.1
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    rate: float  # updates a second, after the rounds that do not count
    start: Seconds  # until the first round had ended
    megabytes: float  # resident, of all processes together, at the peak
    weights: Weights  # after the round at which all are compared
    torch: str  # its version, where it was used


class RaceError(Exception):
    """It did not come to its end; says why."""


def race(
    contender: Contender,
    problem: Path,
    environments: Path,
    check: int,
    patience: Seconds,
) -> Outcome:
    """Runs a contender to its end.

    Raises:
        RaceError: it ended with an error, or not at all.
    """
    result, log = problem.with_suffix(".outcome.npz"), problem.with_suffix(".log")
    result.unlink(missing_ok=True)
    python = sys.executable
    if contender.environment:
        python = str(python_of(environments, contender.environment))
    words = [python, "-m", *contender.launcher, contender.module]
    words += [str(problem), str(result), "--rounds", str(contender.rounds)]
    words += ["--warm", str(contender.warm), "--check", str(check)]
    if contender.settings:
        words += ["--settings", json.dumps(contender.settings)]
    with log.open("w") as file:
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | ONE_THREAD | QUIET,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        with _Watched(process.pid) as watched:
            try:
                status = process.wait(patience)
            except subprocess.TimeoutExpired:
                raise RaceError(f"not done within {patience:g} s") from None
            finally:
                watched.end_all()
                process.kill()
                process.wait()
    if not result.is_file():
        lines = log.read_text(errors="replace").strip().splitlines()
        raise RaceError(f"ended with {status}: {(lines or [''])[-1][:200]}")
    with np.load(result) as found:
        weights = [found[name] for name in found if name.startswith(WEIGHTS)]
        return Outcome(
            rate=float(found["updates"] / (found["last"] - found["warm"])),
            start=float(found["first"] - began),
            megabytes=watched.megabytes,
            weights=weights,
            torch=str(found["torch"]),
        )


class _Watched:
    """A process and its descendants, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[int, str] = {}  # when each began
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.megabytes = 0.0

    def __enter__(self) -> "_Watched":
        """Begins to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops looking."""
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(PERIOD):
            total = 0.0
            for pid in _tree(self._pid):
                with suppress(OSError, AssertionError):
                    self._known[pid] = _began(pid)
                    total += resident_megabytes(pid)
            self.megabytes = max(self.megabytes, total)

    def end_all(self) -> None:
        """Kills what it has left behind."""
        for pid, began in self._known.items():
            with suppress(OSError):
                if pid != self._pid and _began(pid) == began:
                    os.kill(pid, signal.SIGKILL)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _began(pid: int) -> str:
    """When a process began: a number that was used before is of another one."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[19]
