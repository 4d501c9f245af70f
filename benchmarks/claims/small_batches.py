"""Claim 25: trajectory-regularised SGD and Adam are better at batches of 8.

Zhang, Qu, Chen, Metaxas, "Taming the Noisy Gradient: Train Deep Neural Networks with
Small Batch Sizes", IJCAI 2019, who train ResNets on CIFAR. Here a CNN of 1,898
parameters learns digits at one place, as there: one client has 4 of 5 training images,
and the others choose the learning rate. B 8, 40 epochs, the rate falls to .1 and .01 of
itself after 20 and 30 of them; momentum .9, weight decay 1e-4, S 10 and λ .1 as in the
authors' code. Seeds vary version 0 and batches. Accuracy is that of the last epoch.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from torch import nn

from benchmarks.claims.report import Cell, Report, Scale, Table, at_least, difference
from benchmarks.claims.setup import digits
from fedcore.arrays import as_numpy
from fedcore.clients import LocalAdam, LocalSGD, TrajectoryAdam, TrajectorySGD
from fedcore.clients.base import ClientAlgorithmConfig
from fedcore.lr_schedules import Points
from fedcore.pool import Pool
from fedcore.rng import Key, seeds
from fedcore.samples import as_samples
from fedcore.stacks import StackedTasks, train_stack
from fedcore.typing import State
from fedtorch import TorchWorkload

BATCH, EPOCHS, DECAY = 8, 40, 1e-4
PAPERS = {"SGD": 0.1, "Adam": 0.001}  # the rates of the authors' code
RATES = {"SGD": (0.01, 0.03, 0.1, 0.3), "Adam": (0.001, 0.003, 0.01, 0.03)}

BEST = "the best rate of each"
KNOWN = (
    "here the regulariser saves SGD from a rate at which it diverges; at rates that "
    "suit each, or with Adam, nothing is gained"
)


class Scores(NamedTuple):
    """The accuracies on validation and test images, one a seed."""

    valid: Sequence[float]
    test: Sequence[float]


def cnn() -> nn.Module:
    """Two convolutions with pools for images of 8x8, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def run(scale: Scale) -> Report:
    """Trains at all rates, and compares at the paper's and at the best ones."""
    epochs = scale.of(EPOCHS, 1)
    found = {
        (base, name, rate): _train(config, scale.seeds, epochs)
        for base in PAPERS
        for rate in RATES[base]
        for name, config in _pair(base, rate, epochs).items()
    }
    rows: dict[str, list[Cell]] = {}
    checks = []
    for base, theirs in PAPERS.items():
        ours = f"TR{base}"
        for rate in RATES[base]:
            rows[f"{base}, lr {rate:g}"] = [
                Cell(found[base, name, rate].test) for name in (base, ours)
            ]
        best = {
            name: max(
                RATES[base], key=lambda rate: np.mean(found[base, name, rate].valid)
            )
            for name in (base, ours)
        }
        at_best = [found[base, name, best[name]].test for name in (base, ours)]
        rows[f"{base}, best rates {best[base]:g} and {best[ours]:g}"] = [
            Cell(scores) for scores in at_best
        ]
        at_theirs = [found[base, name, theirs].test for name in (base, ours)]
        for where, (plain, regularised) in (
            (f"the authors' lr {theirs:g}", at_theirs),
            (BEST, at_best),
        ):
            gained = difference(Cell(regularised), Cell(plain))
            known = "" if base == "SGD" and where != BEST else KNOWN
            text = f"{ours} - {base} at {where}"
            checks.append(at_least(text, gained, 1e-9, known=known))
    return Report(
        number=25,
        title="trajectory-regularised SGD and Adam are better at batches of 8",
        source="Zhang et al., IJCAI 2019",
        tables=[Table("accuracy", ("without", "with"), rows)],
        checks=checks,
        remarks=[
            "the best rate is that of the best mean accuracy on training images that "
            "were held out"
        ],
    )


def _pair(base: str, lr: float, epochs: int) -> Mapping[str, ClientAlgorithmConfig]:
    half = max(1, epochs // 2)
    points = ((0, 1.0), (half, 0.1), (half + max(1, epochs // 4), 0.01))
    schedule = Points(points=points, between="jump")
    common = {"lr": lr, "schedule": schedule, "batch": BATCH, "weight_decay": DECAY}
    if base == "SGD":
        common |= {"momentum": 0.9, "keep_momentum": True}
        return {
            "SGD": LocalSGD.model_validate(common),
            "TRSGD": TrajectorySGD.model_validate(common),
        }
    common |= {"keep_moments": True}
    return {
        "Adam": LocalAdam.model_validate(common),
        "TRAdam": TrajectoryAdam.model_validate(common),
    }


def _train(config: ClientAlgorithmConfig, seeds_: Sequence[int], epochs: int) -> Scores:
    """Trains one model for each seed, all in one stack."""
    images = {part: digits(part) for part in ("train", "test")}
    x, y = (
        part.reshape(-1, 1, 8, 8) if part.ndim > 1 else part for part in images["train"]
    )
    held_out = np.arange(len(y)) % 5 == 0
    workload = TorchWorkload(
        model=cnn,
        loss=nn.CrossEntropyLoss(),
        metrics=lambda out, y: {"accuracy": (out.argmax(1) == y).float().mean()},
        train_data=lambda client: None,
    )
    flat, pool = workload.flat(), Pool()
    model, clients = flat.stack(), range(len(seeds_))
    for client in clients:
        pool.add(client, as_samples((x[~held_out], y[~held_out]), "train_data"))
    roots = [Key.root(seed) for seed in seeds_]
    w_ND = [flat.initial(root.fold_in("initial")) for root in roots]
    kept: list[State] = [None] * len(roots)
    steps = [config.step_count(int((~held_out).sum()))] * len(roots)
    for epoch in range(epochs):
        keys = [root.fold_in("epoch", epoch) for root in roots]
        tasks = StackedTasks(clients, seeds(keys), steps, kept, keys[0])
        done = train_stack(
            model, pool, config.at(epoch), tasks, w_ND, count_labels=False
        )
        kept = done.kept
        w_ND = [
            w - delta for w, delta in zip(w_ND, as_numpy(done.delta_ND), strict=True)
        ]
    x_test, y_test = images["test"]
    parts = (x[held_out], y[held_out]), (x_test.reshape(-1, 1, 8, 8), y_test)
    valid, test = (
        [float(flat.evaluate(w, part)[0]["accuracy"]) for w in w_ND] for part in parts
    )
    return Scores(valid, test)
