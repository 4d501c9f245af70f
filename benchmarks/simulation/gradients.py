"""``python -m benchmarks.simulation.gradients``: stacks beside loops and products.

One step of N models; set ``OPENBLAS_NUM_THREADS=1``, torch gets one thread anyway. The
bare products are written by hand for one network, and compute nothing else; the plain
loop is forward and backward of an ordinary module, once for each model. GFLOP/s count
products and convolutions alone, of the stack and of the plain loop; a product of two
large matrices shows the limit of the core. ``--save`` keeps every round.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.series import join
from benchmarks.speed.measure import machine
from fedcore.clients import LocalSGD
from fedcore.model import StackedModel, Steps
from fedcore.rng import Key
from fedtorch import models
from fedtorch.flat import FlatModule

RESULTS = Path(__file__).parent.parent / "results" / "gradients.json"
ROUNDS = 40
STACKED, PLAIN = "stacked", "plain loop"
RATIOS = ("compiled", "flat loop", PLAIN, "bare torch.bmm", "bare numpy")
Micros = Mapping[str, Sequence[float]]  # of each contender, a value for each round
LARGE = 2048
FEATURES, HIDDEN, CLASSES = 64, 32, 10


class Task(NamedTuple):
    """A model, a sample's shape, and how many models and samples."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    n: int
    b: int
    words: int = 0
    y_shape: tuple[int, ...] = ()
    classes: int = CLASSES


TASKS = (
    Task("mlp 64-32-10", lambda: models.mlp(64, 32, 10), (64,), 10, 16),
    Task("mlp 64-32-10", lambda: models.mlp(64, 32, 10), (64,), 100, 16),
    Task("mlp 784-128-10", lambda: models.mlp(784, 128, 10), (784,), 50, 32),
    Task("small_cnn", models.small_cnn, (1, 28, 28), 50, 32),
    Task("cnn_1d", models.cnn_1d, (6, 100), 10, 32, classes=7),
    Task("res_net", lambda: models.res_net(1), (1, 28, 28), 5, 16),
    Task("char_lstm", lambda: models.char_lstm(90, 8, 64), (20,), 20, 8, 90, (20,), 90),
    Task("lora_transformer", models.lora_transformer, (16,), 10, 8, 90, (16,), 90),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table of ratios to the stack; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.gradients")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    table = Table("model", "N", "B", "stacked µs", *RATIOS, "way", "GFLOP/s", "plain")
    found = {}
    for task in TASKS:
        where = machine()
        way, micros, flops = _measured(task, options.rounds)
        table.add_row(*_row(task, way, micros, flops))
        name = f"{task.name}, N {task.n}, B {task.b}"
        series = {contender: {"values": values} for contender, values in micros.items()}
        found[name] = {"machine": where, "way": way, "flops": flops, "µs": series}
    console = Console(width=150)
    console.print(table)
    left = torch.rand(LARGE, LARGE)
    (taken,) = _times({"product": lambda: left @ left}, options.rounds).values()
    rate = 2 * LARGE**3 / float(np.median(taken)) / 1e3
    console.print(f"a product of {LARGE} by {LARGE} numbers: {rate:.0f} GFLOP/s")
    if options.save:
        join(RESULTS, found)
    return 0


def _flops(task: Task, x: Any, y: Any) -> int:
    """Of the products and convolutions of one step of all models."""
    module = task.build()
    with FlopCounterMode(display=False) as counter:
        loss = nn.CrossEntropyLoss()(
            module(torch.from_numpy(x[0])), torch.from_numpy(y[0])
        )
        loss.backward()
    return int(task.n * counter.get_total_flops())


def _measured(task: Task, rounds: int) -> tuple[str, Micros, int]:
    """Which way the stack goes, the times of all, and the operations of a step."""
    model = FlatModule(task.build, nn.CrossEntropyLoss(), None, lambda data, _: data)
    w_ND = np.stack([model.initial(Key.root(i)) for i in range(task.n)])
    x, y = _drawn(task)
    sizes_N = np.full(task.n, task.b)
    stacked = model.stack()
    contenders: dict[str, Callable[[], Any]] = {
        STACKED: lambda: stacked.gradient(w_ND, x, y, sizes_N),
        "flat loop": lambda: [
            model.gradient(w_ND[i], x[i], y[i]) for i in range(task.n)
        ],
        PLAIN: _plain_loop(task, x, y),
    }
    compiled = _compiled(stacked, w_ND, x, y)
    if compiled() is not None:
        contenders["compiled"] = compiled
    if task.name == "mlp 64-32-10":
        contenders["bare torch.bmm"] = _bare_torch(w_ND, x, y)
        contenders["bare numpy"] = _bare_numpy(w_ND, x, y)
    micros = _times(contenders, rounds)
    way = "vmap" if "vmap" in stacked.how else "layers"
    if "graph" in stacked.how:
        way = "graph"
    return way, micros, _flops(task, x, y)


def _row(task: Task, way: str, micros: Micros, flops: int) -> Sequence[str]:
    """A line of the table: how many times as long as the stack others take."""
    medians = {name: float(np.median(values)) for name, values in micros.items()}
    ours = medians[STACKED]
    return (
        *(task.name, str(task.n), str(task.b), f"{ours:.0f}"),
        *(f"{medians[name] / ours:.2f}" if name in medians else "" for name in RATIOS),
        way,
        *(f"{flops / medians[name] / 1e3:.0f}" for name in (STACKED, PLAIN)),
    )


def _compiled(stacked: StackedModel, w_ND: Any, x: Any, y: Any) -> Callable[[], Any]:
    """One step of SGD in the compiled loop; it returns None where that takes none."""
    n, b = x.shape[:2]
    rows_NSB = np.arange(n * b).reshape(n, 1, b)
    samples, targets = x.reshape(n * b, *x.shape[2:]), y.reshape(n * b, *y.shape[2:])
    sizes_NS = np.full((n, 1), b)
    rule = LocalSGD(lr=0.1).rule()
    steps = Steps(rule, samples, targets, rows_NSB, sizes_NS, w_ND)
    return lambda: stacked.descend(steps)


def _drawn(task: Task) -> tuple[Any, Any]:
    chance = np.random.default_rng(0)
    shape = (task.n, task.b, *task.shape)
    x: Any = chance.random(shape, np.float32)
    if task.words:
        x = chance.integers(0, task.words, shape)
    return x, chance.integers(0, task.classes, (task.n, task.b, *task.y_shape))


def _times(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> Micros:
    """What each takes in every round, in microseconds, in turns."""
    for contender in contenders.values():
        contender()
        contender()
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + 12
    for _ in range(rounds):
        for name, contender in contenders.items():
            start = time.perf_counter()
            contender()
            taken[name].append(round((time.perf_counter() - start) * 1e6, 1))
        if time.perf_counter() > end:
            break
    return taken


def _plain_loop(task: Task, x: Any, y: Any) -> Callable[[], None]:
    module, loss = task.build(), nn.CrossEntropyLoss()
    parameters = list(module.parameters())
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> None:
        for i in range(task.n):
            for parameter in parameters:
                parameter.grad = None
            loss(module(inputs[i]), targets[i]).backward()

    return step


def _parts(flat_ND: Any) -> list[Any]:
    """W (N, O, F) and b (N, 1, O) of both layers, as views."""
    parts, at = [], 0
    for inputs, outputs in ((FEATURES, HIDDEN), (HIDDEN, CLASSES)):
        size = inputs * outputs
        parts.append(flat_ND[:, at : at + size].reshape(-1, outputs, inputs))
        at += size
        parts.append(flat_ND[:, at : at + outputs].reshape(-1, 1, outputs))
        at += outputs
    return parts


def _bare_torch(w_ND: Any, x: Any, y: Any) -> Callable[[], Any]:
    weights, inputs = torch.from_numpy(w_ND), torch.from_numpy(x)
    index = torch.from_numpy(y)[..., None]
    gradient = torch.empty_like(weights)
    w1, b1, w2, b2 = _parts(weights)
    g_w1, g_b1, g_w2, g_b2 = _parts(gradient)
    minus = torch.full(index.shape, -1.0)

    @torch.no_grad()
    def step() -> Any:
        h = torch.baddbmm(b1, inputs, w1.transpose(1, 2)).relu_()
        scores = torch.log_softmax(torch.baddbmm(b2, h, w2.transpose(1, 2)), 2)
        loss = -scores.gather(2, index).mean((1, 2))
        p = scores.exp_().scatter_add_(2, index, minus).mul_(1 / x.shape[1])
        torch.bmm(p.transpose(1, 2), h, out=g_w2)
        torch.sum(p, 1, keepdim=True, out=g_b2)
        g = torch.bmm(p, w2).mul_(h > 0)
        torch.bmm(g.transpose(1, 2), inputs, out=g_w1)
        torch.sum(g, 1, keepdim=True, out=g_b1)
        return loss

    return step


def _bare_numpy(w_ND: Any, x: Any, y: Any) -> Callable[[], Any]:
    gradient = np.empty_like(w_ND)
    w1, b1, w2, b2 = _parts(w_ND)
    g_w1, g_b1, g_w2, g_b2 = _parts(gradient)
    row, column = np.arange(len(x))[:, None], np.arange(x.shape[1])[None]

    def step() -> Any:
        h = x @ w1.swapaxes(1, 2)
        h += b1
        np.maximum(h, 0, out=h)
        p = h @ w2.swapaxes(1, 2)
        p += b2
        p -= p.max(2, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(2, keepdims=True)
        loss = -np.log(p[row, column, y]).mean(1)
        p[row, column, y] -= 1
        p *= np.float32(1 / x.shape[1])
        np.matmul(p.swapaxes(1, 2), h, out=g_w2)
        p.sum(1, keepdims=True, out=g_b2)
        g = p @ w2
        g *= h > 0
        np.matmul(g.swapaxes(1, 2), x, out=g_w1)
        g.sum(1, keepdims=True, out=g_b1)
        return loss

    return step


if __name__ == "__main__":
    sys.exit(main())
