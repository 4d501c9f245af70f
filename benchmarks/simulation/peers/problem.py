"""The input and the output of every contender, with NumPy alone."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
WEIGHTS = "weights_"  # and a number: the arrays that a contender writes down
Weights = Sequence[npt.NDArray[Any]]  # in torch's order and layout


class Problem(NamedTuple):
    """A federation: who holds what, and how it is learnt."""

    model: str  # of peers.networks
    x: Floats  # (rows, ...)
    y: Integers
    rows: Integers  # of the first client, then of the second, ...
    bounds: Integers  # where they begin, and where the last one's end
    x_test: Floats
    y_test: Integers
    initial: list[Floats]
    cohort: int
    epochs: int
    lr: float
    batch: int

    @property
    def clients(self) -> int:
        """How many there are."""
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Integers:
        """The samples of each client, (N,)."""
        sizes: Integers = np.diff(self.bounds)
        return sizes

    def rows_of(self, client: int) -> Integers:
        """Where a client's samples are."""
        return self.rows[self.bounds[client] : self.bounds[client + 1]]

    def data(self, client: int) -> tuple[Floats, Integers]:
        """A client's inputs and labels, copied."""
        rows = self.rows_of(client)
        return self.x[rows], self.y[rows]

    def save(self, path: Path) -> None:
        """Writes it for all contenders."""
        arrays = self._asdict()
        initial = arrays.pop("initial")
        arrays |= {f"initial_{i}": array for i, array in enumerate(initial)}
        np.savez(path, **arrays)


def load(path: Path) -> Problem:
    """What was saved."""
    with np.load(path, allow_pickle=False) as raw:
        found: dict[str, Any] = dict(raw)
    initial = [found.pop(f"initial_{i}") for i in range(_layers(found))]
    for name in ("cohort", "epochs", "lr", "batch", "model"):
        found[name] = found[name].item()
    return Problem(initial=initial, **found)


def _layers(found: dict[str, Any]) -> int:
    return sum(name.startswith("initial_") for name in found)


class Course:
    """One run of a contender: its problem, and what is noted on the way."""

    def __init__(self, words: Sequence[str] | None = None) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("problem", type=Path)
        parser.add_argument("outcome", type=Path, help="is written at the end")
        parser.add_argument("--rounds", type=int, required=True)
        parser.add_argument("--warm", type=int, required=True, help="not counted")
        parser.add_argument("--check", type=int, required=True, help="keep its model")
        parser.add_argument("--settings", default="{}", help="JSON, where it has any")
        options = parser.parse_args(words)
        self.path: Path = options.problem
        self.problem = load(self.path)
        self.rounds: int = options.rounds
        self.settings: str = options.settings
        self._outcome: Path = options.outcome
        self._warm: int = options.warm
        self._check: int = options.check
        self._noted: dict[str, float] = {}
        self._weights: list[npt.NDArray[Any]] = []

    def finished(self, number: int, weights: Callable[[], Weights]) -> None:
        """A round has ended, of which the first is 1."""
        now = _now()
        if number == 1:
            self._noted["first"] = now
        if number == self._warm:
            self._noted["warm"] = now
        if number == self._check:
            self._weights = [np.array(array, copy=True) for array in weights()]
        self._noted["last"] = now

    def ended(self) -> None:
        """What came after the last round counts as well."""
        self._noted["last"] = _now()

    def save(self, *, each: int | None = None) -> None:
        """Writes what was noted.

        Args:
            each: updates that a round consists of, where it is not a cohort.
        """
        updates = (self.rounds - self._warm) * (each or self.problem.cohort)
        torch = sys.modules.get("torch")
        arrays: dict[str, Any] = {
            f"{WEIGHTS}{i}": w for i, w in enumerate(self._weights)
        }
        arrays["torch"] = str(getattr(torch, "__version__", ""))
        np.savez(self._outcome, updates=updates, **arrays | self._noted)


def _now() -> float:
    """The time at which a GPU has done what it was given, if there is one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.monotonic()


def draw_cohort(problem: Problem, rng: np.random.Generator) -> Integers:
    """Who takes part in a round."""
    return rng.choice(problem.clients, problem.cohort, replace=False)


def shuffles(sizes: Integers, rng: np.random.Generator) -> Integers:
    """An order for each client, (N, most): the numbers of its samples come first."""
    keys = rng.random((len(sizes), int(sizes.max())))
    keys[np.arange(keys.shape[1]) >= sizes[:, None]] = 2
    return keys.argsort(axis=1)
