"""``python -m benchmarks.gpu``: the simulator on a GPU, beside peers on the same one.

First the models that a GPU and the CPU come to are compared. Then follow updates a
second for the CIFAR10 set-up of pfl-research's benchmarks (1,000 users of 50 images, 50
a round, batches of 10, a CNN of 1.6M parameters), for 1,000 a round, for a small
transformer over 20 tokens as of StackOverflow, and for 1,000 clients in flight with
their error memories. Data are random and of the right shapes: accuracy is not measured.

It installs nothing: peers that are not here are left out. Each part is saved before the
next one begins, and none begins after ``--minutes``.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console

from benchmarks.series import put
from benchmarks.simulation.peers.networks import DEVICE, build
from benchmarks.simulation.peers.problem import Integers, Problem
from benchmarks.simulation.problems import digits_of_100
from benchmarks.simulation.race import Outcome, RaceError, race
from benchmarks.simulation.tasks import (
    ADA_SGD,
    BUFFERED,
    TOP_K,
    UNEQUAL,
    Contender,
    ours,
    peer,
)
from benchmarks.speed.measure import machine
from fedcore.errors import ConfigError
from fedcore.typing import JSON, Seconds
from fedtorch.devices import find_device

RESULTS = Path(__file__).parent / "results" / "gpu.json"
CLOSE = 1e-3  # of the largest weight: two devices round products differently
WORDS, TOKENS = 10_000, 20
OURS, LOOP, VMAP, PFL = "latecomer", "torch loop", "torch.func vmap", "pfl"
PROCESSES = (1, 3, 5)  # of pfl


class Size(NamedTuple):
    """How large the problems are."""

    clients: int = 1000
    cohort: int = 50
    large: int = 1000  # clients of a large round
    samples: int = 50
    shorten: int = 1  # rounds are divided by this


QUICK = Size(clients=6, cohort=2, large=4, samples=4, shorten=100)


class Part(NamedTuple):
    """A problem, and who computes it."""

    title: str
    problem: Problem
    contenders: Mapping[str, Contender]


def parts(size: Size, device: str) -> Iterator[Part]:
    """Yields the parts, the most important one first."""
    cifar = images(size, size.cohort)
    yield Part("CIFAR10", cifar, contenders("CIFAR10", device, size, rounds=60))
    large = images(size, size.large)
    some = contenders("cohort 1,000", device, size, rounds=10)
    yield Part("CIFAR10, 1,000 a round", large, some)
    text = sentences(size)
    some = contenders("transformer", device, size, rounds=20)
    yield Part("transformer", text, {n: c for n, c in some.items() if n != VMAP})
    flight = {**UNEQUAL, "clients": size.clients}
    engine = {"device": device, "memory_bytes": 32 << 30}
    mine = ours(
        "in flight",
        max(2, 400 // size.shorten),
        algorithm=BUFFERED | ADA_SGD | TOP_K,
        simulate={**flight, "engine": engine},
    )
    yield Part("CIFAR10, 1,000 in flight, top-k with memories", cifar, {OURS: mine})


def contenders(
    problem: str, device: str, size: Size, *, rounds: int
) -> dict[str, Contender]:
    """Returns us, and the peers that are here."""
    rounds = max(2, rounds // size.shorten)
    few = max(2, rounds // 4)
    found = {
        OURS: ours(problem, rounds, simulate={"engine": {"device": device}}),
        VMAP: peer("torch_vmap", problem, rounds),
        LOOP: peer("torch_loop", problem, few),
    }
    if find_spec("pfl") is None:
        return found
    for count in PROCESSES:
        words = ("torch.distributed.run", "--standalone", f"--nproc-per-node={count}")
        launcher = (*words, "-m") if count > 1 else ()
        one = replace(peer("pfl", problem, few), launcher=launcher)
        found[f"{PFL}, {count} processes"] = one
    return found


# ------------------------------------------------------------------------ the problems


def images(size: Size, cohort: int) -> Problem:
    """Random images of CIFAR10's shape, and pfl's CNN of 1.6M parameters."""
    rng = np.random.default_rng(0)
    count = size.clients * size.samples
    x = rng.normal(size=(count, 3, 32, 32)).astype(np.float32)
    y = rng.integers(10, size=count)
    return _problem("cifar", x, y, size, cohort, batch=10, lr=0.1)


def sentences(size: Size) -> Problem:
    """Random tokens, each to be followed by the next; a transformer of 3 layers."""
    rng = np.random.default_rng(0)
    shape = (size.clients * size.samples, TOKENS + 1)
    words = rng.integers(WORDS, size=shape)
    x, y = words[:, :-1], words[:, 1:]
    return _problem("transformer", x, y, size, size.cohort, batch=16, lr=0.3)


def _problem(
    model: str,
    x: npt.NDArray[Any],  # numbers or tokens
    y: Integers,
    size: Size,
    cohort: int,
    *,
    batch: int,
    lr: float,
) -> Problem:
    torch.manual_seed(0)
    return Problem(
        model=model,
        x=x,
        y=y,
        rows=np.arange(len(y)),
        bounds=np.arange(size.clients + 1) * size.samples,
        x_test=x[:1],
        y_test=y[:1],
        initial=[p.detach().numpy() for p in build(model).parameters()],
        cohort=cohort,
        epochs=1,
        lr=lr,
        batch=batch,
    )


# --------------------------------------------------------------------------- the races


class Races:
    """Runs contenders until the time is up."""

    def __init__(self, folder: Path, minutes: float, console: Console) -> None:
        self._folder, self._console = folder, console
        self._ends = time.monotonic() + 60 * minutes

    @property
    def left(self) -> Seconds:
        """The seconds until no race begins any more."""
        return self._ends - time.monotonic()

    def run(self, name: str, contender: Contender, problem: Path) -> Outcome | str:
        """Runs one; returns a sentence if it did not come to its end."""
        if self.left <= 0:
            return "no time was left"
        try:
            check = contender.rounds
            outcome = race(contender, problem, self._folder, check, max(self.left, 30))
        except RaceError as error:
            return str(error)
        self._console.print(f"  {name}: {outcome.rate:,.0f} updates a second")
        return outcome

    def save(self, name: str, problem: Problem) -> Path:
        """Writes a problem for all contenders."""
        path = self._folder / f"{name}.npz"
        problem.save(path)
        return path


def compare(races: Races, device: str, rounds: int) -> JSON:
    """Returns how far the models of the CPU and of a device are apart."""
    path = races.save("equality", digits_of_100(Path()))
    found = {}
    for where in ("cpu", device):
        mine = ours("digits", rounds, simulate={"engine": {"device": where}})
        outcome = races.run(f"on {where}", mine, path)
        if isinstance(outcome, str):
            return {"error": outcome}
        found[where] = outcome.weights
    pairs = [*zip(found["cpu"], found[device], strict=True)]
    apart = max(float(np.abs(a - b).max()) for a, b in pairs)
    largest = max(float(np.abs(a).max()) for a, _ in pairs)
    return {"rounds": rounds, "largest difference": apart, "largest weight": largest}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if the models of the two devices differ."""
    options = _options(arguments)
    try:
        device = str(find_device(options.device))
    except ConfigError as error:
        raise SystemExit(str(error)) from error
    os.environ[DEVICE] = device
    size = QUICK if options.quick else Size()
    console = Console(highlight=False)
    card = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    told: JSON = {"machine": {**machine(), "torch": torch.__version__}, "parts": {}}
    with tempfile.TemporaryDirectory() as scratch:
        races = Races(Path(scratch), options.minutes, console)
        console.print(f"{card}: equality with the CPU")
        told["equality"] = equal = compare(races, device, max(2, 60 // size.shorten))
        _save(options.out, card, told)
        for part in parts(size, device):
            if races.left <= 0:
                break
            console.print(part.title)
            path = races.save("part", part.problem)
            rows = told["parts"].setdefault(part.title, {})
            for name, contender in part.contenders.items():
                found = races.run(name, contender, path)
                rows[name] = {"error": found} if isinstance(found, str) else _row(found)
                _save(options.out, card, told)
    if "error" in equal:
        return 1
    is_equal = equal["largest difference"] <= CLOSE * equal["largest weight"]
    return int(not is_equal)  # NaN is not equal


def _row(outcome: Outcome) -> JSON:
    return {"updates/s": outcome.rate, "start, s": outcome.start}


def _save(out: Path | None, card: str, told: JSON) -> None:
    """Writes what is known; what was saved of this card in another run is replaced."""
    if out is not None:
        put(out, card, told)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("--device", default="cuda", help="cuda if not said")
    parser.add_argument("--minutes", type=float, default=8.0, help="8 if not said")
    parser.add_argument(
        "--quick", action="store_true", help="tiny, to try it out: --device cpu"
    )
    parser.add_argument(
        "--out", type=Path, nargs="?", const=RESULTS, help=f"write it; {RESULTS.name}"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
