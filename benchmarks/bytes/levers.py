"""``python -m benchmarks.bytes.levers``: ideas for saving bytes that did not help.

FedAvg with the perceptron of ``--task mlp_decay`` and an error memory on both sides, in
a loop of this module: 100 clients, 10 a round, 300 rounds, ``semi_discrete`` with .08
bits a value up and .01 down. A tenth of every client's rows is held out and evaluated,
so that nothing is chosen by the test images. Bytes are those of payloads; the download
is the sum of all messages that a client missed.

The levers: more bits for the second half of the rounds, or for the first, with the same
number of bytes in all; averaging at the server (``schedule_free``); and differences
(EF21 and FedVARP): a client sends the difference between its update and the server's
record of its earlier ones, and the server adds the mean of its records of all clients.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.bytes.__main__ import DATA
from benchmarks.bytes.data import Rows, held_out
from benchmarks.bytes.mlp import evaluate, fashion, gradient
from benchmarks.bytes.tasks import TASKS, Task
from benchmarks.bytes.tune import SEED
from benchmarks.series import join
from fedcore.compressors import Identity, SemiDiscrete
from fedcore.errors import LatecomerError
from fedcore.params import ParamSpec
from fedcore.payloads import decode
from fedcore.rng import Key
from fedcore.server_optimizers import SGD, ScheduleFree, ServerOptimizerConfig
from fedcore.typing import JSON, Vector
from fedrun.cli.exit_codes import exit_code

RESULTS = Path(__file__).parent.parent / "results" / "levers.json"
LAST = 10  # versions whose accuracy is averaged
UP, DOWN = 0.08, 0.01  # bits of a message for each value of the model
Share = Callable[[float], float]  # of the usual bits, by the share of rounds over


@dataclass(frozen=True)
class Lever:
    """A federation, as it differs from the usual one."""

    name: str
    bits: Share | None = lambda over: 1.0
    """None: nothing is compressed."""
    server: ServerOptimizerConfig = field(default_factory=SGD)
    differences: bool = False


LEVERS = (
    Lever("uncompressed", bits=None),
    Lever("semi_discrete .08/.01 bits"),
    Lever("more bits late", bits=lambda over: 0.6 if over < 0.5 else 1.4),
    Lever("more bits early", bits=lambda over: 1.4 if over < 0.5 else 0.6),
    Lever("averaging", server=ScheduleFree()),
    Lever("differences", differences=True),
)


class Came(NamedTuple):
    """The accuracy and the bytes of a run."""

    accuracy: float
    up: float
    """Bytes of a payload, the mean of all."""
    down: float
    """Bytes of the payloads that a client gets with a task, the mean of all."""


class Codec:
    """Encodes vectors of one model, and counts the bytes."""

    def __init__(self, spec: ParamSpec, bits: float, share: Share | None) -> None:
        self._spec, self._bits, self._share = spec, bits, share
        self.nbytes: list[int] = []

    def sent(self, x_D: Vector, over: float) -> Vector:
        """Returns what arrives of a vector when a share of the rounds is over."""
        codec = Identity() if self._share is None else self._of(self._share(over))
        message, _ = codec.build_for(self._spec).encode(x_D, None, Key.root(0))
        self.nbytes.append(message.nbytes)
        return np.asarray(decode(message), np.float32)

    def _of(self, share: float) -> SemiDiscrete:
        return SemiDiscrete(bits=self._bits * share)


def run(lever: Lever, task: Task, data: str, rounds: int, seed: int) -> Came:
    """Trains one federation, and evaluates it on what is held out."""
    model, rng = fashion.flat(), np.random.default_rng(seed)
    spec = model.spec
    shared = held_out(task.share)(data, task.clients, seed)
    rows = [shared.train.take(part) for part in shared.parts]
    public_D = model.initial(Key.root(seed))
    exact_D, server = public_D.copy(), lever.server.build()
    state = server.init(spec.dim)
    up, down = Codec(spec, UP, lever.bits), Codec(spec, DOWN, lever.bits)
    left = np.zeros((task.clients, spec.dim), np.float32)  # memories, or what is held
    held_D = np.zeros(spec.dim, np.float32)  # the mean of what is held of all
    version, patches, accuracy = np.zeros(task.clients, int), list[int](), list[float]()
    for turn in range(rounds):
        over = turn / rounds
        lr = task.lr * min(1.0, 2.0 * (1.0 - over))
        sum_D = np.zeros(spec.dim, np.float32)
        for who in rng.choice(task.clients, task.cohort, replace=False):
            patches.append(sum(down.nbytes[version[who] : turn]))
            version[who] = turn
            change_D = public_D - _trained(public_D, spec, rows[who], lr, task, rng)
            if lever.differences:
                change_D -= left[who]
            else:
                change_D += left[who]
            sent_D = up.sent(change_D, over)
            left[who] = left[who] + sent_D if lever.differences else change_D - sent_D
            sum_D += sent_D
        mean_D = sum_D / np.float32(task.cohort)
        if lever.differences:
            mean_D += held_D
            held_D += sum_D / np.float32(task.clients)
        exact_D, state = server.update(exact_D, mean_D, state)
        public_D = public_D - down.sent(public_D - exact_D, over)
        if turn >= rounds - LAST:
            test = shared.test
            accuracy.append(evaluate(spec.unflatten(public_D), *test)["accuracy"])
    means = [float(np.mean(each)) for each in (accuracy, up.nbytes, patches)]
    return Came(*means)


def _trained(
    start_D: Vector,
    spec: ParamSpec,
    rows: Rows,
    lr: float,
    task: Task,
    rng: np.random.Generator,
) -> Vector:
    """Returns the model after an epoch of SGD."""
    w_D = start_D.copy()
    params = spec.unflatten(w_D)
    order = rng.permutation(len(rows.y))
    for at in range(0, len(order), task.batch):
        batch = rows.take(order[at : at + task.batch])
        _, slopes = gradient(params, *batch)
        for name, tensor in params.items():
            tensor -= np.multiply(slopes[name], np.float32(lr))
    return w_D


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all levers, and prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bytes.levers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default=os.environ.get(DATA, "data"))
    parser.add_argument("--rounds", type=int, default=TASKS["mlp_decay"].rounds)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    found: dict[str, JSON] = {}
    table = Table("lever", "accuracy", "bytes up", "bytes down", box=box.SIMPLE_HEAD)
    task, seeds = TASKS["mlp_decay"], range(SEED, SEED + options.seeds)
    try:
        for lever in LEVERS:
            runs = [
                run(lever, task, options.data, options.rounds, seed) for seed in seeds
            ]
            found[lever.name] = {"runs": [each._asdict() for each in runs]}
            means = np.mean(runs, axis=0)
            table.add_row(
                lever.name, f"{means[0]:.4f}", *(f"{m:,.0f}" for m in means[1:])
            )
            print(lever.name, [round(each.accuracy, 4) for each in runs], flush=True)
    except LatecomerError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    Console(highlight=False).print(table)
    if options.save:
        join(RESULTS, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
