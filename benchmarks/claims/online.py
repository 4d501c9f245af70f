"""Claim 29: learning all day long is worth most where the data change all day long.

Damaskinos et al., "FLeet: Online Federated Learning via Staleness Awareness and
Performance Prediction", Middleware 2020, §3.1: a recommender of hashtags that phones
update every hour is 2.3 times as good as one that they update at night, while they are
idle ("standard FL"). Tweets may not be shared, so this is a stream with a known drift:
every hour each of forty clients sees fresh images of digits, and each digit keeps its
label for a while that is exponential, with a given mean; then it changes labels with
another digit. Both ways do the same number of rounds on the same images: either of the
last hour, or at night those of the last day. A model is judged by test images, with the
labels of the hour to come. The negative control is a stream that does not change.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    ratio,
)
from benchmarks.claims.setup import CLASSES, Federation, digits, in_rounds
from fedcore.compressors import Identity
from fedcore.rng import Key
from fedcore.typing import Vector

CLIENTS, COHORT, SAMPLES = 40, 8, 16  # samples an hour, of each client
HOURS, DAYS, ROUNDS = 24, 4, 4  # rounds an hour
LIVES = (6.0, 24.0, 96.0, np.inf)  # mean hours that a digit keeps its label
FAST, NEVER = LIVES[0], LIVES[-1]
Labels = npt.NDArray[np.int64]


def run(scale: Scale) -> Report:
    """Accuracy of the hour to come, by how fast labels change."""
    days = scale.of(DAYS, 2)
    rows = {}
    for life in LIVES:
        found = [
            [measured(life, seed, days, nightly=nightly) for seed in scale.seeds]
            for nightly in (False, True)
        ]
        rows[named(life)] = [Cell(values) for values in found]
    quick, never = (ratio(*rows[named(life)]) for life in (FAST, NEVER))
    return Report(
        number=29,
        title="Learning all day is worth most where labels change all day",
        source="Damaskinos et al., FLeet, Middleware 2020, section 3.1",
        tables=[
            Table(
                f"accuracy of the hour to come, {days - 1} days after the first",
                ("every hour", "every night"),
                rows,
            )
        ],
        checks=[
            at_least(f"every hour over every night, {named(FAST)}", quick, 2.3),
            *(
                at_least(
                    f"every hour over every night, {named(life)}",
                    ratio(*rows[named(life)]),
                    2.3,
                    gates=False,
                )
                for life in LIVES[1:-1]
            ),
            at_most("every hour over every night, labels that stay", never, 1.02),
        ],
    )


def named(life: float) -> str:
    """Returns the name of a row, given the mean hours that a digit keeps its label."""
    return "labels that stay" if np.isinf(life) else f"labels of {life:g} hours"


def measured(life: float, seed: int, days: int, *, nightly: bool) -> float:
    """The mean accuracy of the hours to come, after the first day.

    Args:
        life: the mean time that a digit keeps its label, in hours.
        seed: of the stream, the model and the cohorts.
        days: how long it runs.
        nightly: whether all rounds of a day are done in its last hour.
    """
    stream = Stream(life, seed)
    hours = [stream.hour() for _ in range(days * HOURS + 1)]
    x, y = digits("test")
    everybody = [np.arange(1)] * CLIENTS
    config = in_rounds(COHORT, Identity(), Identity())
    federation = Federation(config, everybody, seed)
    accuracy = []
    for now in range(len(hours) - 1):
        if not nightly:
            learn(federation, hours[now : now + 1], ROUNDS)
        elif now % HOURS == HOURS - 1:
            learn(federation, hours[now + 1 - HOURS : now + 1], ROUNDS * HOURS)
        if now >= HOURS - 1:
            model_D = federation.coordinator.state.published.public_D
            coming = hours[now + 1].labels[y]
            accuracy.append(federation.model.quality(model_D, x, coming).accuracy)
    return float(np.mean(accuracy))


class Hour(NamedTuple):
    """What all clients see in an hour, and under which labels."""

    shares: list[tuple[Vector, Labels]]
    """Images (n, 64) and labels of each client."""
    labels: Labels
    """The label of each digit in this hour, (10,)."""


class Stream:
    """Images that clients see, hour by hour, under labels that change."""

    def __init__(self, life: float, seed: int) -> None:
        self._rng = Key.root(seed).fold_in("stream").generator()
        self._change = -np.expm1(-1 / life) / 2  # a swap changes two digits
        self._labels = np.arange(CLASSES)

    def hour(self) -> Hour:
        """Draws an hour: images and labels of each client."""
        for digit in np.flatnonzero(self._rng.random(CLASSES) < self._change):
            other = self._rng.integers(CLASSES)
            pair = [digit, other]
            self._labels[pair] = self._labels[pair[::-1]]
        x, y = digits("train")
        rows = self._rng.integers(len(y), size=(CLIENTS, SAMPLES))
        shares = [(x[own], self._labels[y[own]]) for own in rows]
        return Hour(shares, self._labels.copy())


def learn(federation: Federation, hours: Sequence[Hour], rounds: int) -> None:
    """Does rounds in which clients train on what they saw in these hours."""
    federation.show(
        [
            tuple(map(np.concatenate, zip(*own, strict=True)))
            for own in zip(*(hour.shares for hour in hours), strict=True)
        ]
    )
    for _ in range(rounds):
        federation.round()
