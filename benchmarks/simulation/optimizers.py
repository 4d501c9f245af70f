"""``python -m benchmarks.simulation.optimizers``: costs of client optimisers' steps.

All steps of a stack of clients, by each client optimiser, as a multiple of the time
that plain SGD takes for the same steps. Both are measured in turn, in the same round,
and a round gives one ratio of each, so other load on the machine cancels out. The time
is processor time. ``--save`` keeps the ratios of every round.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.basis import stamp
from benchmarks.speed.measure import machine
from fedcore.clients import (
    FedProx,
    LocalAdam,
    LocalAdamW,
    LocalConfig,
    LocalSGD,
    TrajectoryAdam,
    TrajectorySGD,
)
from fedcore.pool import Pool
from fedcore.rng import Key, seeds
from fedcore.samples import as_samples
from fedcore.stacks import StackedTasks, train_stack
from fedcore.typing import Vector
from fedtorch import TorchWorkload, models

RESULTS = Path(__file__).parent.parent / "results" / "optimizers.json"
ROUNDS, STEPS, CLASSES = 5, 10, 10
MARK = 1.3
PLAIN = "plain SGD"
OPTIMIZERS: dict[str, Callable[..., LocalConfig]] = {
    PLAIN: LocalSGD,
    "momentum": lambda **own: LocalSGD(momentum=0.9, **own),
    "nesterov": lambda **own: LocalSGD(momentum=0.9, nesterov=True, **own),
    "clip_norm": lambda **own: LocalSGD(clip_norm=1.0, **own),
    "clip_value": lambda **own: LocalSGD(clip_value=0.1, **own),
    "frozen": lambda **own: LocalSGD(frozen=("*.bias",), **own),
    "fed_prox": FedProx,
    "local_adam": LocalAdam,
    "local_adam_w": LocalAdamW,
    "trajectory_sgd": TrajectorySGD,
    "trajectory_adam": TrajectoryAdam,
}


class Task(NamedTuple):
    """A model, a sample's shape, and how many models and samples a step has."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    clients: int
    batch: int


def _gelu() -> nn.Module:
    """A network that is stacked by layer and not compiled."""
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, CLASSES))


TASKS = {
    "mlp 64-32-10, compiled": Task(lambda: models.mlp(64, 32, 10), (64,), 100, 16),
    "small_cnn, compiled": Task(models.small_cnn, (1, 28, 28), 10, 16),
    "mlp 64-128-10 with GELU, by layer": Task(_gelu, (64,), 50, 32),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table of ratios; returns 1 if a median is above the mark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.optimizers")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    where = machine()
    found = {name: measure(task, options.rounds) for name, task in TASKS.items()}
    table = Table("optimiser", *found)
    for optimizer in OPTIMIZERS:
        medians = [f"{np.median(ratios[optimizer]):.2f}" for ratios in found.values()]
        table.add_row(optimizer, *medians)
    Console(highlight=False).print(table)
    if options.save:
        saved = {"machine": where, "steps": STEPS, "ratios": found, **stamp()}
        RESULTS.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    worst = max(np.median(each) for all_ in found.values() for each in all_.values())
    return int(worst > MARK)


def measure(task: Task, rounds: int) -> Mapping[str, Sequence[float]]:
    """The time of each optimiser over that of plain SGD, round by round."""
    workload = TorchWorkload(
        model=task.build, loss=nn.CrossEntropyLoss(), train_data=lambda client: None
    )
    flat = workload.flat()
    model, rng, pool = flat.stack(), np.random.default_rng(0), Pool()
    size = task.batch * STEPS
    for client in range(task.clients):
        x = rng.normal(size=(size, *task.shape)).astype(np.float32)
        pool.add(client, as_samples((x, rng.integers(0, CLASSES, size)), "train_data"))
    keys = [Key.root(client) for client in range(task.clients)]
    tasks = StackedTasks(
        range(task.clients),
        seeds(keys),
        [STEPS] * task.clients,
        [None] * task.clients,
        keys[0],
    )
    start_D: Vector = flat.initial(Key.root(0))
    configs = {
        name: build(steps=STEPS, batch=task.batch, lr=0.001)
        for name, build in OPTIMIZERS.items()
    }

    def seconds(config: LocalConfig) -> float:
        began = time.process_time()
        train_stack(
            model,
            pool,
            config,
            tasks,
            start_D,
            count_labels=False,
            frozen=config.frozen_parts(flat.spec),
        )
        return time.process_time() - began

    seconds(configs[PLAIN])  # the first call sizes memory
    found: dict[str, list[float]] = {name: [] for name in configs}
    for _ in range(rounds):
        for name, config in configs.items():
            before, own = seconds(configs[PLAIN]), seconds(config)
            found[name].append(round(2 * own / (before + seconds(configs[PLAIN])), 4))
    return found


if __name__ == "__main__":
    sys.exit(main())
