"""Claim 11, first half: Overlap Local-SGD hides transfers behind the next steps.

Wang, Liang, Joshi, "Overlap Local-SGD: An Algorithmic Approach to Hide Communication
Delays in Distributed SGD", ICASSP 2020, arXiv 2002.09539. The real simulator runs the
recipe against synchronous local SGD: 8 workers; a step takes 1 + Exp(.2) seconds, and a
message, its verdict and a new model take 10 together.

First the virtual time until the mean loss over all training images is .05, with an
eighth of the images each, at a rate of .5. Then the accuracy after 100 s where workers
have all classes alike, by Dirichlet .3, or two shards each; each row has the best rate
of .2, .5, 1, 2 and 4, and with local momentum of .05, .1, .2, .4, .8 and 1.6, by the
mean over the three with seeds 0 to 2.
"""

from typing import Any, NamedTuple

import numpy as np
from torch import nn

from benchmarks.claims.perceptron import first, perceptron, simulate
from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    difference,
    ratio,
)
from benchmarks.claims.setup import CLASSES, HIDDEN, PIXELS, digits
from fedcore.partitions import Partition, dirichlet, iid, shards
from fedcore.typing import Seconds, Vector
from fedtorch import TorchWorkload

WORKERS, BATCH = 8, 16
LOSSES = (0.2, 0.1, 0.05)
TRANSFERS = 10.0  # seconds; each of four messages takes a quarter
STEP, TAIL = 1.0, 0.2
LONGEST, EQUAL = 8000.0, 100.0


class Variant(NamedTuple):
    """A method, and its settings."""

    lr: float = 0.5
    steps: int = 8
    alpha: float | None = None  # None: local SGD
    beta: float = 0.0  # of the momentum at the server
    momentum: float = 0.0  # of the local steps, by Nesterov
    keeps: bool = True  # whether that stays from task to task


PAPERS = Variant(alpha=0.6, beta=0.7)
ROWS: dict[str, tuple[Variant, str]] = {
    "overlap, 8 steps": (PAPERS, "153/333/700"),
    "overlap, 8 steps, no momentum": (PAPERS._replace(beta=0.0), ""),
    "overlap, 8 steps, α = .3": (PAPERS._replace(alpha=0.3), ""),
    "local SGD, 8 steps": (Variant(), ""),
    "local SGD, 20 steps": (Variant(steps=20), "204/391/829"),
    "synchronous SGD": (Variant(steps=1), "905/1994/4184"),
}
UNLIKE = ("IID", "Dirichlet .3", "two shards")
UNLIKE_ROWS = {
    "overlap, 8 steps": PAPERS._replace(lr=2.0),
    "local SGD, 8 steps": Variant(lr=2.0),
    "local SGD, 20 steps": Variant(lr=2.0, steps=20),
    "local SGD, 8 steps, β = .7": Variant(lr=2.0, beta=0.7),
    "overlap, local momentum": PAPERS._replace(lr=0.8, momentum=0.9),
    "overlap, local momentum forgotten": PAPERS._replace(
        lr=0.8, momentum=0.9, keeps=False
    ),
    "local SGD, local momentum": Variant(lr=0.4, momentum=0.9),
}


def run(scale: Scale) -> Report:
    """Measures seconds to three losses, and the accuracy after equal time."""
    rows = dict[str, list[Cell]]()
    for name, (variant, expected) in ROWS.items():
        found = [times(variant, seed, quick=scale.quick) for seed in scale.seeds]
        before = expected.split("/") if expected else ["", "", ""]
        rows[name] = [
            Cell(column, known, LONGEST)
            for column, known in zip(zip(*found, strict=True), before, strict=True)
        ]
    unlike = {
        name: [
            Cell(column)
            for column in zip(
                *(accuracy(variant, seed) for seed in scale.seeds), strict=True
            )
        ]
        for name, variant in UNLIKE_ROWS.items()
    }
    last = {name: cells[-1] for name, cells in rows.items()}
    ours = last["overlap, 8 steps"]
    local = [cell for name, cell in last.items() if name[:5] == "local"]
    better = min(local, key=lambda cell: cell.mean)
    return Report(
        number=11,
        title="Transfers are hidden behind the next local steps",
        source="Wang, Liang, Joshi, ICASSP 2020, arXiv 2002.09539",
        tables=[
            Table(
                "Virtual seconds to a training loss",
                [f"loss {loss:g}" for loss in LOSSES],
                rows,
            ),
            Table(f"Accuracy after {EQUAL:g} s", UNLIKE, unlike),
        ],
        checks=[
            at_least(
                "synchronous SGD takes times as long",
                ratio(last["synchronous SGD"], ours),
                4,
            ),
            at_least(
                "local SGD of as many steps takes times as long",
                ratio(last["local SGD, 8 steps"], ours),
                1.15,
            ),
            at_least(
                "the better of two local SGDs takes times as long",
                ratio(better, ours),
                1.15,
                known="20 steps a round are as fast here",
            ),
            at_least(
                "the same with α = .3",
                ratio(better, last["overlap, 8 steps, α = .3"]),
                1.15,
                gates=False,
            ),
            *(
                at_least(
                    f"{data}: accuracy, {one} - {other}",
                    difference(unlike[one][place], unlike[other][place]),
                    0,
                    gates=gates,
                    known="models of workers with few classes drift apart" * gates,
                )
                for one, other, gates in (
                    ("overlap, 8 steps", "local SGD, 8 steps", True),
                    ("overlap, 8 steps", "local SGD, 8 steps, β = .7", False),
                    ("overlap, local momentum", "local SGD, local momentum", False),
                    (
                        "overlap, local momentum",
                        "overlap, local momentum forgotten",
                        False,
                    ),
                )
                for place, data in enumerate(UNLIKE)
            ),
        ],
    )


def times(variant: Variant, seed: int, *, quick: bool = False) -> list[Seconds]:
    """The virtual time to each loss; the longest where it was not reached."""
    stop = {
        "seconds": 100.0 if quick else LONGEST,
        "target": {"loss": LOSSES[-1]},
    }
    table = train(variant, stop, _workload(seed), seed)
    return [first(table["seconds"], table["loss"] <= goal, LONGEST) for goal in LOSSES]


def accuracy(variant: Variant, seed: int) -> list[float]:
    """The accuracy after equal time, for each way to deal out the images."""
    stop = {"seconds": EQUAL}
    return [
        float(train(variant, stop, perceptron(parts), seed)["accuracy"][-1])
        for parts in partitions(seed)
    ]


def partitions(seed: int) -> list[Partition]:
    """The images of each worker, the most alike first."""
    _, y = digits("train")
    return [
        iid(y, clients=WORKERS, seed=seed),
        dirichlet(y, clients=WORKERS, alpha=0.3, seed=seed),
        shards(y, clients=WORKERS, per_client=2, seed=seed),
    ]


def train(
    variant: Variant, stop: dict[str, Any], workload: TorchWorkload, seed: int
) -> dict[str, Vector]:
    """Runs a variant; returns seconds and metrics of the versions."""
    steps = variant.steps
    client = {
        "kind": "local_sgd",
        "lr": variant.lr,
        "steps": steps,
        "batch": BATCH,
        "momentum": variant.momentum,
        "nesterov": variant.momentum > 0,
        "keep_momentum": variant.keeps,
    }
    if variant.alpha is not None:
        client |= {"kind": "overlap_local_sgd", "alpha": variant.alpha}
    # A task of so many steps, in units of as many seconds.
    draws = np.random.default_rng([seed, steps]).gamma(steps, TAIL, 4000)
    config = {
        "algorithm": {
            "kind": "fed_avg" if variant.alpha is None else "overlap_local_sgd",
            "buffer": WORKERS,
            "weigh_by": "updates",
            "server": {"kind": "momentum", "lr": 1.0, "beta": variant.beta},
            "client": client,
        },
        "seed": seed,
        "simulate": {
            "clients": WORKERS,
            "step_seconds": STEP,
            "jitter": {"kind": "empirical", "values": (1 + draws / steps).tolist()},
            "link": {"latency": TRANSFERS / 4, "up_mbit": 1e6, "down_mbit": 1e6},
        },
        "evaluate": {"every_versions": 1},
        "stop": stop,
    }
    return simulate(config, workload)


def _workload(seed: int) -> TorchWorkload:
    """The network of the claims, with an eighth of the images on each client."""
    x, y = digits("train")
    order = np.random.default_rng(seed).permutation(len(y))
    parts = np.array_split(order, WORKERS)

    def model() -> nn.Module:
        hidden, out = nn.Linear(PIXELS, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        for layer in (hidden, out):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(hidden, nn.ReLU(), out)

    return TorchWorkload(
        model=model,
        loss=nn.CrossEntropyLoss(),
        train_data=lambda client: (x[parts[client.index]], y[parts[client.index]]),
        test_data=lambda: (x, y),
    )
