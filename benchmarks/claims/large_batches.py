"""Claim 35: beyond the batch limit no step is saved, and large batches lose accuracy.

Papailiopoulos, lectures on large-scale machine learning, of which we have notes: no
speed-up where the batch is above B(data, loss), and large batches generalise worse.
The limit is that of gradient diversity (:mod:`fedcore.planning.batch_limit`), and the
rule that rates grow with the batch is of Goyal and others, arXiv 1706.02677 (from
memory).

The small network learns digits at one place by plain SGD at a constant rate, in batches
of 8 to all images. Every fifth training image is held out. A run has as many steps as
batches of 8 take for all epochs. It is looked at when its own epochs are over, and at
its end. Rates are that of batches of 8 for all (fixed), in proportion to the batch
(linear, without a warm-up), and the best of :data:`RATES` for each batch (tuned). They
were chosen on seeds 0 to 9 by :func:`best_rates`: by the accuracy of images that were
held out, after equal epochs and after equal steps, and by the steps to a loss. Bounds
were set on the same seeds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from math import ceil
from typing import NamedTuple

import numpy as np

from benchmarks.batch_limit import fitted
from benchmarks.claims.report import (
    Cell,
    Estimate,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    difference,
    ratio,
)
from benchmarks.claims.setup import DigitsMLP, digits
from fedcore.planning.batch_limit import batch_limit
from fedcore.rng import Key
from fedcore.typing import Indices, Vector

SMALL, SIZES, EPOCHS = 8, (8, 32, 128, 512), 20
RATES = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)
COLUMNS = ("training loss", "accuracy", "gap")
WORST = 10.0  # the loss of a run that has diverged
Images = tuple[Vector, Indices]


@dataclass(frozen=True, eq=False)
class Study:
    """The images that are learnt, and the rates."""

    images: Callable[[str], Images]
    """Images (N, 64) and labels of the ``train`` or the ``test`` part."""
    loss: float
    """The training loss to which steps are counted."""
    tuned: Mapping[str, Sequence[float]]
    """The best rate of each batch, by what it is best for."""

    @cached_property
    def parts(self) -> tuple[Images, Images, Images]:
        """The images for training, for choosing rates, and for tests."""
        x, y = self.images("train")
        is_held = np.arange(len(y)) % 5 == 0
        held_out = x[is_held], y[is_held]
        return (x[~is_held], y[~is_held]), held_out, self.images("test")

    @property
    def count(self) -> int:
        """How many images there are for training."""
        return len(self.parts[0][1])

    @property
    def batches(self) -> dict[str, int]:
        """The sizes of the batches, by name."""
        return {**{f"{size}": size for size in SIZES}, "all": self.count}

    def steps(self, epochs: int, batch: int = SMALL) -> int:
        """Returns the steps that batches of a size take for some epochs."""
        return epochs * ceil(self.count / batch)


DIGITS = Study(
    digits,
    0.1,
    {
        "epochs": (0.3, 3.0, 3.0, 6.0, 6.0),
        "steps": (0.3, 3.0, 3.0, 3.0, 3.0),
        "loss": (1.0, 3.0, 6.0, 6.0, 6.0),
    },
)


class Look(NamedTuple):
    """The loss of a model, and its accuracy on three sets of images."""

    loss: float
    """The mean of the training images."""
    accuracy: float
    """Of the test images."""
    gap: float
    """The accuracy of the training images, less that of the test images."""
    held_out: float
    """The accuracy of the images that were held out."""


class Run(NamedTuple):
    """A training in batches of one size at one rate."""

    epochs: Look
    """The model after as many epochs as all batches have."""
    steps: Look
    """The model after as many steps as all batches have."""
    loss: int
    """Steps until the loss is reached, or those of the whole run."""
    reached_D: Vector
    """The model (D,) that has reached it, or version 0."""


DIVERGED = Look(WORST, 0.1, 0.0, 0.1)  # a guess of ten classes


def run(scale: Scale) -> Report:
    """Measures the claim on digits."""
    return studied(DIGITS, scale)


def studied(study: Study, scale: Scale) -> Report:
    """Compares losses, accuracies and steps by batch and rate."""
    epochs = scale.of(EPOCHS, 2)
    most = study.steps(epochs)

    def runs(rates: Sequence[float]) -> list[list[Run]]:
        return [
            [train(study, batch, rate, seed, epochs) for seed in scale.seeds]
            for batch, rate in zip(study.batches.values(), rates, strict=True)
        ]

    by_aim = {aim: runs(rates) for aim, rates in study.tuned.items()}
    base = study.tuned["epochs"][0]
    ways = {
        "fixed": runs([base] * len(study.batches)),
        "linear": runs([base * batch / SMALL for batch in study.batches.values()]),
    }
    looks = {
        aim: {
            f"{name}, {batch}": _cells([getattr(run, aim) for run in runs])
            for name, found in {**ways, "tuned": by_aim[aim]}.items()
            for batch, runs in zip(study.batches, found, strict=True)
        }
        for aim in ("epochs", "steps")
    }
    steps = {
        batch: Cell([run.loss for run in runs], budget=most)
        for batch, runs in zip(study.batches, by_aim["loss"], strict=True)
    }
    limits = _limits(study, scale, by_aim["loss"][1], steps)

    def lost(aim: str, name: str, place: int) -> Estimate:
        """The column of batches of 8, less that of all images."""
        small, large = (looks[aim][f"{name}, {batch}"][place] for batch in ("8", "all"))
        return difference(small, large)

    beyond = ratio(steps["128"], steps["all"])
    early = ratio(limits["initial"], limits["fitted"])
    return Report(
        number=35,
        title="Beyond the batch limit no step is saved, and accuracy is lost",
        source="Papailiopoulos, lecture notes",
        tables=[
            Table(f"after {epochs} epochs", COLUMNS, looks["epochs"]),
            Table(f"after {most:,} steps", COLUMNS, looks["steps"]),
            Table(
                f"steps to a training loss of {study.loss:g}",
                ("steps",),
                {batch: [cell] for batch, cell in steps.items()},
            ),
            Table("samples", ("limit",), {name: [of] for name, of in limits.items()}),
        ],
        checks=[
            at_least(
                "times fewer steps with 32 than with 8",
                ratio(steps["8"], steps["32"]),
                2.0,
            ),
            at_most("times fewer steps with all than with 128", beyond, 1.5),
            at_most(
                "times fewer steps with all than with 128",
                beyond,
                1.1,
                known="the gain fades, and does not stop at the limit",
            ),
            at_least("initial limit over the fitted one", early, 0.5),
            at_most("initial limit over the fitted one", early, 2.0),
            at_most(
                "limit at the loss over the fitted one",
                ratio(limits["at the loss"], limits["fitted"]),
                2.0,
                known="it grows as the loss falls",
            ),
            at_least("accuracy lost, equal epochs", lost("epochs", "tuned", 1), 0.005),
            at_most(
                "gap of 8 above all, equal epochs",
                lost("epochs", "tuned", 2),
                0.0,
                known="few steps train less, so that the gap is smaller",
            ),
            *(
                at_least(
                    f"accuracy lost, equal {aim}, {name}",
                    lost(aim, name, 1),
                    0.005,
                    gates=False,
                )
                for aim, name in (
                    ("epochs", "fixed"),
                    ("epochs", "linear"),
                    ("steps", "fixed"),
                    ("steps", "linear"),
                    ("steps", "tuned"),
                )
            ),
        ],
        remarks=[
            f"the best rates by batch are {', '.join(map(str, rates))} for {aim}"
            for aim, rates in study.tuned.items()
        ],
    )


def _cells(looks: Sequence[Look]) -> list[Cell]:
    """Returns the cells of a row."""
    losses, accuracies, gaps, _ = zip(*looks, strict=True)
    return [Cell(losses, budget=WORST), Cell(accuracies), Cell(gaps)]


def _limits(
    study: Study, scale: Scale, runs: Sequence[Run], steps: Mapping[str, Cell]
) -> dict[str, Cell]:
    """Returns the predicted limits, and the one that fits the steps."""
    initial = [limit_at(study, initial_of(seed)) for seed in scale.seeds]
    reached = [limit_at(study, run.reached_D) for run in runs]
    by_seed = zip(*(cell.values for cell in steps.values()), strict=True)
    sizes = study.batches.values()
    fits = [fitted(dict(zip(sizes, each, strict=True))) for each in by_seed]
    return {
        "initial": Cell(initial),
        "at the loss": Cell(reached),
        "fitted": Cell(fits),
    }


def initial_of(seed: int) -> Vector:
    """Returns version 0 (D,), which the seed alone decides."""
    return DigitsMLP().initial(Key.root(seed).fold_in("claim 35", "version 0"))


def limit_at(study: Study, w_D: Vector) -> float:
    """Returns n·Δ of the gradients of all n training images."""
    (x, y), network = study.parts[0], DigitsMLP()
    rows = range(len(y))
    return batch_limit(network.gradient(w_D, x[[r]], y[[r]])[1] for r in rows).limit


@cache
def train(study: Study, batch: int, rate: float, seed: int, epochs: int) -> Run:
    """Trains for the steps that batches of 8 take for all epochs."""
    (x, y), network = study.parts[0], DigitsMLP()
    w_D = reached_D = initial_of(seed)
    own, most = study.steps(epochs, batch), study.steps(epochs)
    looked = {own, most} | {round(1.05**power) for power in range(200)}
    to_loss, found = most, {own: DIVERGED, most: DIVERGED}
    key = Key.root(seed).fold_in("claim 35", "batches", batch)
    drawn = islice(batches(key, study.count, batch), most)
    with np.errstate(over="ignore", invalid="ignore"):
        for step, rows in enumerate(drawn, 1):
            w_D = w_D - np.float32(rate) * network.gradient(w_D, x[rows], y[rows])[1]
            if step not in looked:
                continue
            look = look_at(study, w_D)
            if not look.loss < WORST:
                break
            if look.loss <= study.loss and step < to_loss:
                to_loss, reached_D = step, w_D
            found[step] = look
    return Run(found[own], found[most], to_loss, reached_D)


def batches(key: Key, count: int, size: int) -> Iterator[Indices]:
    """Yields the rows of all batches, epoch by epoch, for ever."""
    rng = key.generator()
    while True:
        order = rng.permutation(count)
        yield from (order[start : start + size] for start in range(0, count, size))


def look_at(study: Study, w_D: Vector) -> Look:
    """Returns the quality of a model."""
    train, held_out, test = (DigitsMLP().quality(w_D, *part) for part in study.parts)
    gap = train.accuracy - test.accuracy
    return Look(train.loss, test.accuracy, gap, held_out.accuracy)


def best_rates(study: Study, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Returns the rates that are the best for each aim, by batch, on these seeds."""
    scores = {
        "epochs": lambda run: run.epochs.held_out,
        "steps": lambda run: run.steps.held_out,
        "loss": lambda run: -run.loss,
    }

    def score(aim: str, batch: int, rate: float) -> float:
        runs = (train(study, batch, rate, seed, EPOCHS) for seed in seeds)
        return float(np.mean([scores[aim](run) for run in runs]))

    return {
        aim: [
            max(RATES, key=lambda rate: score(aim, batch, rate))
            for batch in study.batches.values()
        ]
        for aim in scores
    }
