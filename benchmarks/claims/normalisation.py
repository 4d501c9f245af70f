"""Claim 24: batch normalisation and its buffers where clients differ.

Hsieh, Phanishayee, Mutlu, Gibbons, "The Non-IID Data Quagmire of Decentralized Machine
Learning", ICML 2020, section 5: BatchNorm fails where clients have other classes, and
GroupNorm recovers much of that. Li, Jiang, Zhang, Kamp, Dou, "FedBN", ICLR 2021: where
clients differ in their features, BatchNorm that stays on the client does better than
averaged one.

A small convolutional network on the digits, ten clients that all train, 5 local steps
of 16 images at rate .1, 40 versions. First by classes: one or two a client, or all;
also with a version after each step, which is the paper's bulk-synchronous training.
Then by features: each client sees the digits with a contrast and a brightness of its
own, every second one as a negative, and is tested on images like its own.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import nn

import latecomer
from benchmarks.claims.report import (
    Cell,
    Estimate,
    Report,
    Scale,
    Table,
    at_least,
    difference,
)
from benchmarks.claims.setup import CLASSES, digits
from fedcore.merging import MEAN
from fedcore.partitions import iid, k_classes
from fedcore.typing import JSON, Vector
from fedcore.workload import Client
from fedtorch import TorchWorkload

CLIENTS, SIDE, WIDTH, VERSIONS = 10, 8, 8, 40
SGD: JSON = {"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 16}
DITTO: JSON = {**SGD, "kind": "ditto", "pull": 0.1}
BY_CLASSES = {"1 class": 1, "2 classes": 2, "all classes": CLASSES}
AVERAGED, GROUPS, NONE = "BatchNorm, averaged", "GroupNorm, 2 groups", "none"
FED_BN = "FedBN: BatchNorm local"
OWN = ("all, by the server", "own, by the client")
ABOVE = "GroupNorm above averaged BatchNorm"
SMALL = "averaged BatchNorm does not fail in this small network"
Norm = Callable[[int], nn.Module]


class Study(NamedTuple):
    """Images, a network for them, and how it is trained."""

    images: Callable[[str], tuple[Vector, Any]]  # of a split: (N, 1, H, W), (N,)
    network: Callable[[Norm], nn.Module]
    client: JSON  # its algorithm
    versions: int


class Arm(NamedTuple):
    """How a network normalises, and what becomes of its tensors."""

    norm: Norm
    options: Mapping[str, Any] = {}
    client: JSON | None = None  # another algorithm than the study's
    with_spread: bool = True  # False: variances are averaged like any other buffer


def groups(channels: int) -> nn.Module:
    """Returns GroupNorm with two groups, for so many channels."""
    return nn.GroupNorm(2, channels)


def nothing(channels: int) -> nn.Module:
    """Returns a layer that normalises nothing."""
    return nn.Identity()


AVERAGE = {"buffers": "average"}
NORMALISED = {
    AVERAGED: Arm(nn.BatchNorm2d, AVERAGE),
    "BatchNorm, statistics local": Arm(nn.BatchNorm2d, {"buffers": "local"}),
    "BatchNorm, statistics frozen": Arm(nn.BatchNorm2d, {"buffers": "frozen"}),
    GROUPS: Arm(groups),
    NONE: Arm(nothing),
}
PERSONAL = {
    AVERAGED: Arm(nn.BatchNorm2d, AVERAGE),
    "BatchNorm, averaged, no spread of means": Arm(
        nn.BatchNorm2d, AVERAGE, with_spread=False
    ),
    FED_BN: Arm(nn.BatchNorm2d, {"local": ["1.*", "4.*"]}),
    "FedPer: last layer local": Arm(nn.BatchNorm2d, AVERAGE | {"local": ["7.*"]}),
    "Ditto, λ = .1": Arm(nn.BatchNorm2d, AVERAGE, DITTO),
    GROUPS: Arm(groups),
}


def run(scale: Scale) -> Report:
    """Measures all ways to normalise where classes or features differ."""
    tables = normalised(DIGITS, BY_CLASSES, scale)
    personal = {
        name: cells(DIGITS, arm, scale, by_features) for name, arm in PERSONAL.items()
    }
    columns = ("by the server", "own images, by the client")
    in_step = {
        f"{name}, {title}": cells(IN_STEP, NORMALISED[name], scale, parts)
        for title, parts in (
            ("1 class", partial(by_classes, IN_STEP, 1)),
            ("all classes", partial(by_classes, IN_STEP, CLASSES)),
        )
        for name in (AVERAGED, GROUPS, NONE)
    }
    stepwise = Table("Accuracy, a version after each step", OWN, in_step)
    features = Table("Accuracy, features differ", columns, personal)
    gap = group_norms_gain(tables[0])
    bulk_gap = difference(
        in_step[f"{GROUPS}, 1 class"][0], in_step[f"{AVERAGED}, 1 class"][0]
    )
    shift = difference(personal[FED_BN][1], personal[AVERAGED][1])
    return Report(
        number=24,
        title="Averaged batch statistics fail where clients have other classes",
        source="Hsieh et al., ICML 2020; Li et al., FedBN, ICLR 2021",
        tables=[*tables, stepwise, features],
        checks=[
            at_least(f"1 class, {ABOVE}", gap, 0.1, known=SMALL),
            at_least(f"1 class in step, {ABOVE}", bulk_gap, 0.1, known=SMALL),
            at_least("features differ, FedBN above averaged BatchNorm", shift, 0.02),
        ],
    )


def normalised(study: Study, by_number: Mapping[str, int], scale: Scale) -> list[Table]:
    """Returns a table of all ways to normalise for each number of classes a client.

    Args:
        study: what is trained.
        by_number: the numbers of classes, by their names.
        scale: which seeds.
    """
    return [
        Table(
            f"Accuracy, {title} a client",
            OWN,
            {
                name: cells(study, arm, scale, partial(by_classes, study, classes))
                for name, arm in NORMALISED.items()
            },
        )
        for title, classes in by_number.items()
    ]


def group_norms_gain(table: Table) -> Estimate:
    """Returns the accuracy of GroupNorm above that of averaged BatchNorm."""
    return difference(table.rows[GROUPS][0], table.rows[AVERAGED][0])


def cells(
    study: Study, arm: Arm, scale: Scale, parts: Callable[[int], "Parts"]
) -> tuple[Cell, Cell]:
    """Returns the accuracies that the server and the clients measure, over seeds."""
    study = study._replace(versions=scale.of(study.versions, 2))
    found = [measured(study, arm, parts(seed), seed) for seed in scale.seeds]
    return Cell([one for one, _ in found]), Cell([own for _, own in found])


class Parts(NamedTuple):
    """The samples (x, y) that each client trains on and is tested on."""

    train: Callable[[Client], tuple[Vector, Any]]
    valid: Callable[[Client], tuple[Vector, Any]]
    test: tuple[Vector, Any]


def by_classes(study: Study, classes: int, seed: int) -> Parts:
    """Clients with images of some classes; tested on those and on all."""
    x, y = study.images("train")
    test_x, test_y = study.images("test")
    if classes == CLASSES:
        parts = iid(y, clients=CLIENTS, seed=seed)
    else:
        parts = k_classes(y, clients=CLIENTS, per_client=classes, seed=seed)

    def own(client: Client) -> tuple[Vector, Any]:
        rows = np.isin(test_y, np.unique(y[parts[client.index]]))
        return test_x[rows], test_y[rows]

    def train(client: Client) -> tuple[Vector, Any]:
        return x[parts[client.index]], y[parts[client.index]]

    return Parts(train, own, (test_x, test_y))


def by_features(seed: int) -> Parts:
    """Clients with images of all classes, each in its own contrast and brightness."""
    x, y = images("train")
    test_x, test_y = images("test")
    parts = iid(y, clients=CLIENTS, seed=seed)
    contrast = np.geomspace(0.3, 3, CLIENTS) * np.where(np.arange(CLIENTS) % 2, -1, 1)
    brightness = np.linspace(-2, 2, CLIENTS)

    def seen(x: Vector, which: int) -> Vector:
        shown: Vector = (x * contrast[which] + brightness[which]).astype(np.float32)
        return shown

    def train(client: Client) -> tuple[Vector, Any]:
        rows = parts[client.index]
        return seen(x[rows], client.index), y[rows]

    def own(client: Client) -> tuple[Vector, Any]:
        return seen(test_x, client.index), test_y

    every = [seen(test_x[which::CLIENTS], which) for which in range(CLIENTS)]
    labels = [test_y[which::CLIENTS] for which in range(CLIENTS)]
    return Parts(train, own, (np.concatenate(every), np.concatenate(labels)))


def images(split: str) -> tuple[Vector, Any]:
    """Returns images (N, 1, 8, 8) and labels (N,)."""
    x, y = digits(split)
    return x.reshape(-1, 1, SIDE, SIDE).astype(np.float32), y


def network(norm: Norm) -> nn.Module:
    """Two convolutions, each before its normalisation, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, WIDTH, 3, padding=1),
        norm(WIDTH),
        nn.ReLU(),
        nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
        norm(2 * WIDTH),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * WIDTH * (SIDE // 2) ** 2, CLASSES),
    )


DIGITS = Study(images, network, SGD, VERSIONS)
IN_STEP = DIGITS._replace(client={**SGD, "steps": 1}, versions=5 * VERSIONS)


def measured(study: Study, arm: Arm, parts: Parts, seed: int) -> tuple[float, float]:
    """Accuracy at the end: of the evaluator, and the mean of the clients' own."""
    workload = TorchWorkload(
        model=lambda: study.network(arm.norm),
        loss=nn.CrossEntropyLoss(),
        metrics=accuracy,
        train_data=parts.train,
        valid_data=parts.valid,
        test_data=lambda: parts.test,
        **arm.options,
    )
    config = {
        "seed": seed,
        "algorithm": {
            "kind": "fed_avg",
            "buffer": CLIENTS,
            "min_clients": CLIENTS,
            "client": arm.client or study.client,
        },
        "evaluate": {"every_versions": study.versions, "clients": True},
        "stop": {"versions": study.versions},
        "simulate": {"clients": CLIENTS},
    }
    with tempfile.TemporaryDirectory() as folder, merging(arm):
        results = latecomer.run(config, workload, folder=Path(folder) / "run")
        own = results.by_client
        name = "personal_accuracy" if "personal_accuracy" in own else "accuracy"
        return results.central["accuracy"][-1], float(np.mean(own[name]))


@contextmanager
def merging(arm: Arm) -> Iterator[None]:
    """Averages variances as they are where an arm says so: the wrong rule."""
    if arm.with_spread:
        yield
        return
    with mock.patch("fedtorch.layout._merge", return_value=MEAN):
        yield


def accuracy(output: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
    """Returns the share of samples whose class has the highest score."""
    return {"accuracy": float((output.argmax(1) == target).float().mean())}
