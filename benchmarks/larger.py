"""``python -m benchmarks.larger``: claims 21 and 24 on images of clothes.

Claim 21, SkewScout, with a CNN of 106,122 parameters in place of a perceptron of 2,410;
claim 24, batch normalisation, with a residual network of seven convolutions in place of
two; claim 9, Gaussian-k, with a perceptron of 101,770. Claims 31, Focus, and 35, large
batches, have the networks of digits, on averages of 3x3 pixels. All on Fashion-MNIST,
whose folder ``--data`` names.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from benchmarks.asynchrony.__main__ import DATA
from benchmarks.bytes.cnn import accuracy
from benchmarks.bytes.cnn import images as cnn
from benchmarks.claims import (
    focus,
    large_batches,
    normalisation,
    skew,
    threshold_selection,
)
from benchmarks.claims.__main__ import measured, save
from benchmarks.claims.normalisation import Norm
from benchmarks.claims.report import Report, Scale, at_least
from benchmarks.claims.setup import digits
from fedcore.errors import LatecomerError
from fedcore.samples import Subset
from fedcore.typing import Indices, Vector
from fedcore.workload import Client
from fedrun.cli.exit_codes import exit_code
from fedrun.data import fashion_mnist
from fedtorch import TorchWorkload

RESULTS = Path(__file__).parent / "results" / "larger.json"
CLASSES = {"1 class": 1, "2 classes": 2}
SKEWS = (0.0, 1.0)


@cache
def clothes(folder: str, split: str) -> tuple[Vector, Any]:
    """Returns images (N, 1, 28, 28) and labels (N,)."""
    x, y = fashion_mnist("train" if split == "train" else "test", folder=folder)
    return x.reshape(-1, 1, 28, 28), y


# ------------------------------------------------------------------ normalisation


class Residual(nn.Module):
    """Two convolutions, each with its normalisation, around which the input goes."""

    def __init__(self, norm: Norm, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            norm(outputs),
        )
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        """Maps (B, inputs, H, W) to (B, outputs, H/stride, W/stride)."""
        return nn.functional.relu(self.path(x) + self.around(x))


def resnet(norm: Norm) -> nn.Module:
    """Three residual blocks of 8, 16 and 32 channels after a first convolution."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, padding=1, bias=False),
        norm(8),
        nn.ReLU(),
        Residual(norm, 8, 8, 1),
        Residual(norm, 8, 16, 2),
        Residual(norm, 16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def run_normalisation(folder: str, scale: Scale) -> Report:
    """Measures claim 24's ways to normalise where classes differ."""
    study = normalisation.Study(
        images=partial(clothes, folder),
        network=resnet,
        client={"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 20},
        versions=40,
    )
    tables = normalisation.normalised(study, CLASSES, scale)
    gap = normalisation.group_norms_gain(tables[0])
    return Report(
        number=24,
        title="Averaged batch statistics fail where clients have other classes",
        source="Hsieh et al., ICML 2020",
        tables=tables,
        checks=[at_least("1 class, GroupNorm above averaged BatchNorm", gap, 0.1)],
    )


# --------------------------------------------------------------------------- skew


def run_skew(folder: str, scale: Scale) -> Report:
    """Measures claim 21: fixed thresholds and SkewScout's."""
    x, y = clothes(folder, "train")
    x = x.reshape(len(x), -1)
    test_x, test_y = clothes(folder, "test")

    def workload(
        own: Sequence[Indices], sample: Callable[[Client], Any]
    ) -> TorchWorkload:
        return TorchWorkload(
            model=cnn,
            loss=nn.CrossEntropyLoss(),
            metrics=accuracy,
            train_data=lambda client: Subset(x, y, own[client.index]),
            valid_data=sample,
            test_data=lambda: (test_x.reshape(len(test_x), -1), test_y),
        )

    study = skew.Study(
        labels=lambda: y,
        workload=workload,
        sample=lambda rows: (x[rows], y[rows]),
        client={"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 32},
        versions=80,
    )
    return skew.studied(study, SKEWS, scale)


# -------------------------------------------------------------------- gaussian_k


def run_gaussian_k(folder: str, scale: Scale) -> Report:
    """Measures claim 9's messages and accuracies in a federation."""
    train, test = (clothes(folder, split) for split in ("train", "test"))

    def workload(own: Sequence[Indices]) -> TorchWorkload:
        return TorchWorkload(
            model=lambda: nn.Sequential(
                nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)
            ),
            loss=nn.CrossEntropyLoss(),
            metrics=accuracy,
            train_data=lambda client: Subset(*train, own[client.index]),
            test_data=lambda: test,
        )

    study = threshold_selection.Study(
        labels=lambda: train[1],
        workload=workload,
        client={"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 32},
        versions=100,
        ratios=(0.001, 0.01),
    )
    table, checks = threshold_selection.federated(study, scale)
    return Report(
        number=9,
        title=threshold_selection.TITLE,
        source=threshold_selection.SOURCE,
        tables=[table],
        checks=checks,
    )


# -------------------------------------------------------------------------- focus

COARSE = {"train": 6_000, "test": 1_000}  # images


def run_focus(folder: str, scale: Scale) -> Report:
    """Measures claim 31 on coarse clothes, with settings chosen on seeds 0 to 2."""

    def images(split: str) -> tuple[Vector, Any]:
        (x, _), (own, y) = coarse(folder, "train"), coarse(folder, split)
        return own - x.mean(axis=0), y

    setting = focus.Setting(classes=3, distance=0.15)
    return focus.studied(focus.Study(images, 32, setting), scale)


def coarse(folder: str, split: str) -> tuple[Vector, Any]:
    """Returns images of 8x8, (N, 64), and labels (N,)."""
    x, y = (each[: COARSE[split]] for each in clothes(folder, split))
    x = x[:, 0, 2:-2, 2:-2].reshape(-1, 8, 3, 8, 3).mean(axis=(2, 4))
    return x.reshape(-1, 64), y


# ------------------------------------------------------------------- large batches

BEST = {
    "epochs": (0.1, 0.3, 1.0, 1.0, 1.0),
    "steps": (0.1, 0.3, 3.0, 3.0, 3.0),
    "loss": (0.3, 1.0, 3.0, 3.0, 3.0),
}  # rates that were chosen on seeds 0 to 9


def run_large_batches(folder: str, scale: Scale) -> Report:
    """Measures claim 35 on as many coarse clothes as there are digits."""

    def images(split: str) -> tuple[Vector, Any]:
        known = len(digits("train")[1])
        (x, _), (own, y) = coarse(folder, "train"), coarse(folder, split)
        return own[:known] - x[:known].mean(axis=0), y[:known]

    return large_batches.studied(large_batches.Study(images, 0.4, BEST), scale)


STUDIES = {
    "focus": run_focus,
    "gaussian_k": run_gaussian_k,
    "large_batches": run_large_batches,
    "normalisation": run_normalisation,
    "skew": run_skew,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the studies that are asked for and prints their tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.larger",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--data", default=os.environ.get(DATA, "data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="a few rounds, no verdict")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    for name in options.studies:
        if name not in STUDIES:
            parser.error(f"no study {name}; there are {', '.join(STUDIES)}")
    seeds = range(options.first, options.first + options.seeds)
    scale = Scale(tuple(seeds), options.quick)
    console, reports = Console(highlight=False), dict[int, tuple[Report, float]]()
    if not console.is_terminal:
        console.width = 120
    try:
        for name in options.studies or STUDIES:
            run = partial(STUDIES[name], options.data)
            report, _ = found = measured(console, name, run, scale)
            reports[report.number] = found
    except LatecomerError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    if options.save:
        save(reports, scale, RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
