"""Claim 34: clients that arrive in the middle of a training, and clients that depart.

Ruan, Zhang, Liang, Joe-Wong, "Towards Flexible Device Participation in Federated
Learning", AISTATS 2021, arXiv 2006.06954. We read the abstract; the rest is from
memory: after an arrival training recovers sooner if the client counts for three times
as much at first and the learning rate begins anew ("fast reboot"); a departed client's
goal is to be kept if little of the training is left, and excluded if much is.

Twenty clients with the digits; all that are there train in each version. One of them
comes late or leaves early, or five leave. They have two shards each; or the one has all
images of a digit, by the seed, and the others two shards of the rest. The rate of
version t is LR/(1 + t/DECAY). A restart is imitated: the schedule knows when the client
comes. Keeping is MIFA, whose server repeats a departed client's last update; excluding
is the mean. "Loss" is that of the training images with their true labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    difference,
    ratio,
)
from benchmarks.claims.setup import CLASSES, Federation, digits
from benchmarks.claims.unequal import recipe
from fedcore import aggregators, recipes
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import LocalSGD
from fedcore.coordinator.events import TimerFired
from fedcore.lr_schedules import Points
from fedcore.partitions import shards
from fedcore.typing import Vector

CLIENTS, EPOCHS, BATCH, LR, DECAY = 20, 2, 16, 0.2, 30
COMES, SOON, AFTER = 30, 5, 30  # versions without the late client, and with it
BOOST = 2.0  # three times as much at first
TARGET = 0.4  # loss
NOISE = 0.2  # of the labels are drawn at random
LEFT = (10, 80)  # versions after a departure
Rows = npt.NDArray[np.int64]


def partition(seed: int, *, alone: bool) -> list[Rows]:
    """Deals the training images out; ``alone``: a digit is with the first client."""
    y = digits("train")[1]
    rows_N = np.arange(len(y))
    own = y == seed % CLASSES if alone else np.zeros(len(y), bool)
    rest_N = rows_N[~own]
    parts = shards(y[rest_N], clients=CLIENTS - alone, seed=seed)
    return [rows_N[own]] * alone + [rest_N[rows] for rows in parts]


class Changing(Federation):
    """A federation whose clients come and go."""

    def __init__(
        self, config: AlgorithmConfig, parts: Sequence[Rows], seed: int, noise: float
    ) -> None:
        super().__init__(config, parts, seed)
        x, y = digits("train")
        rng = np.random.default_rng([seed, 34])
        wrong_N = rng.random(len(y)) < noise
        labels_N = np.where(wrong_N, rng.integers(0, CLASSES, len(y)), y)
        self.show([(x[rows], labels_N[rows]) for rows in parts])

    def make_version(self, present: Sequence[int]) -> None:
        """Makes a version, trained by these clients."""
        version, self._at = self.coordinator.state.version, self._at + 1.0
        for index in present:
            self.pull(index)
        for index in present:
            assert self.train(index)
            self.push(index)
        if self.coordinator.state.version == version:  # somebody is not there
            assert self._deadline is not None
            self.handle(TimerFired(at=self._at, timer=self._deadline))

    def losses(self) -> Vector:
        """Returns the public model's loss of each training image (N,)."""
        x, y = digits("train")
        public_D = self.coordinator.state.published.public_D
        _, chance_NC = self.model.forward(public_D, x)
        loss_N: Vector = -np.log(chance_NC[np.arange(len(y)), y] + np.float32(1e-30))
        return loss_N


class Arrival(NamedTuple):
    """How a federation treats a late client."""

    boost: float = 0.0
    restarts: bool = False
    """Whether the learning rate begins anew with the arrival."""
    falls: bool = True
    """Whether the learning rate falls at all."""


ARRIVALS = {
    "as any other": Arrival(),
    "boost 2": Arrival(BOOST),
    "rate restarts": Arrival(restarts=True),
    "boost, rate restarts": Arrival(BOOST, restarts=True),
    "boost, constant rate": Arrival(BOOST, falls=False),
}


def rates(before: int, after: int, arrival: Arrival) -> Points:
    """Returns the shares of LR for the versions before and after a client comes."""
    ages = [*range(before + after)]
    if arrival.restarts:
        ages = [*range(before), *range(after)]
    shares = (1 / (1 + age * arrival.falls / DECAY) for age in ages)
    return Points(points=tuple(enumerate(shares)), between="jump")


def config(
    kind: type[AlgorithmConfig],
    aggregator: aggregators.AggregatorConfig,
    schedule: Points,
) -> AlgorithmConfig:
    """Returns a recipe in which a version waits until its deadline for the absent."""
    client = LocalSGD(lr=LR, epochs=EPOCHS, batch=BATCH, schedule=schedule)
    more = {"client": client, "aggregator": aggregator, "weigh_by": "samples"}
    return recipe(kind, CLIENTS, minimum=1, deadline=1.0, **more)


def losses_after_arrival(
    arrival: Arrival, seed: int, scale: Scale, *, alone: bool, noise: float = 0.0
) -> list[float]:
    """Returns the losses of the last version without the late client, and of others."""
    before, after = scale.of(COMES, 2), scale.of(AFTER, SOON) if alone else SOON
    parts = partition(seed, alone=alone)
    counted = aggregators.FlexibleParticipation(scheme="B", boost=arrival.boost)
    schedule = rates(before, after, arrival)
    made = Changing(
        config(recipes.FlexibleParticipation, counted, schedule), parts, seed, noise
    )
    for _ in range(before):
        made.make_version(range(1, CLIENTS))
    found = [float(made.losses().mean())]
    for _ in range(after):
        made.make_version(range(CLIENTS))
        found.append(float(made.losses().mean()))
    return found


class Arrived(NamedTuple):
    """What follows from the arrival of a client; losses are those of all images."""

    versions: Cell
    """Until the loss is TARGET; the client has a digit of its own."""
    later: Cell
    """Loss after the last version."""
    noisy: Cell
    """Loss after SOON versions where labels are wrong."""
    noisy_later: Cell
    usual: Cell
    """Loss after SOON versions where the client has two shards, as others."""


def measure_arrival(arrival: Arrival, scale: Scale) -> Arrived:
    """Measures one way to treat a late client."""
    clean, noisy, usual = (
        [
            losses_after_arrival(arrival, seed, scale, alone=alone, noise=noise)
            for seed in scale.seeds
        ]
        for alone, noise in ((True, 0.0), (True, NOISE), (False, 0.0))
    )
    last = len(clean[0]) - 1
    versions = [
        next((t for t, loss in enumerate(each) if loss <= TARGET), last)
        for each in clean
    ]
    at = [
        Cell([each[version] for each in found])
        for found, version in (
            (clean, last),
            (noisy, SOON),
            (noisy, last),
            (usual, SOON),
        )
    ]
    return Arrived(Cell(versions, budget=last), *at)


class Departure(NamedTuple):
    """The clients that depart, the first ones, and when."""

    gone: int
    version: int
    alone: bool = False
    """Whether a digit is theirs alone."""


DEPARTURES = {
    "5 of 20, early": Departure(5, 5),
    "5 of 20, late": Departure(5, 40),
    "a digit's only client": Departure(1, 10, alone=True),
}


class Departed(NamedTuple):
    """Losses after LEFT versions without them, of all images and of those left."""

    all_soon: Cell
    left_soon: Cell
    all_later: Cell
    left_later: Cell


def measure_departure(departure: Departure, scale: Scale, *, keeps: bool) -> Departed:
    """Measures what becomes of a federation that keeps departed clients, or not."""
    gone, alone = departure.gone, departure.alone
    before = scale.of(departure.version, 2)
    aggregator = aggregators.MIFA() if keeps else aggregators.WeightedMean()
    left = [scale.of(*each) for each in zip(LEFT, (1, 2), strict=True)]
    recipe_of = config(recipes.FedAvg, aggregator, rates(before, left[-1], Arrival()))
    found = []
    for seed in scale.seeds:
        parts = partition(seed, alone=alone)
        made = Changing(recipe_of, parts, seed, 0.0)
        losses: list[float] = []
        for _ in range(before):
            made.make_version(range(CLIENTS))
        for since in range(1, left[-1] + 1):
            made.make_version(range(gone, CLIENTS))
            if since in left:
                loss_N = made.losses()
                those_left = np.concatenate(parts[gone:])
                losses += [float(loss_N.mean()), float(loss_N[those_left].mean())]
        found.append(losses)
    return Departed(*map(Cell, zip(*found, strict=True)))


def run(scale: Scale) -> Report:
    """Returns how soon a late client is learnt, and what departures cost."""
    came = {name: measure_arrival(way, scale) for name, way in ARRIVALS.items()}
    went = {
        f"{name}, {'kept' if keeps else 'excluded'}": measure_departure(
            departure, scale, keeps=keeps
        )
        for name, departure in DEPARTURES.items()
        for keeps in (False, True)
    }
    return Report(
        number=34,
        title="An arrival that counts for more at first is learnt sooner",
        source="Ruan, Zhang, Liang, Joe-Wong, AISTATS 2021",
        tables=[
            Table(
                f"A client comes at version {COMES}: a digit of its own, with true and "
                "wrong labels, or two shards",
                (
                    f"versions to {TARGET:g}",
                    f"loss @{AFTER}",
                    f"wrong @{SOON}",
                    f"wrong @{AFTER}",
                    f"shards @{SOON}",
                ),
                came,
            ),
            Table(
                "Loss after departures, of all images and of those left",
                [f"{whose} @{left}" for left in LEFT for whose in ("all", "left")],
                went,
            ),
        ],
        checks=[*check_arrivals(*came.values()), *check_departures(*went.values())],
    )


def check_arrivals(
    plain: Arrived, boost: Arrived, _: Arrived, both: Arrived, constant: Arrived
) -> list[Check]:
    """Compares the ways to treat a late client."""
    return [
        at_most(
            "a digit of its own: versions with a boost over without",
            ratio(boost.versions, plain.versions),
            0.75,
        ),
        at_most(
            "wrong labels: loss with a boost above without",
            difference(boost.noisy, plain.noisy),
            -0.015,
        ),
        at_most(
            "loss with boost and restart over boost at a constant rate",
            ratio(both.later, constant.later),
            1.0,
            known="a restart helps as far as the rate fell too soon",
        ),
        at_most(
            "wrong labels: loss with boost and restart above boost",
            difference(both.noisy, boost.noisy),
            0.0,
            known="the higher rate learns the wrong labels",
        ),
        at_most(
            "two shards: loss with a boost above without",
            difference(boost.usual, plain.usual),
            0.005,
            gates=False,
        ),
    ]


def check_departures(
    out: Departed,
    kept: Departed,
    late_out: Departed,
    late_kept: Departed,
    own_out: Departed,
    own_kept: Departed,
) -> list[Check]:
    """Compares keeping departed clients with excluding them."""
    return [
        at_most(
            "5 of 20 early, little left: loss of all, kept above excluded",
            difference(kept.all_soon, out.all_soon),
            -0.05,
        ),
        at_least(
            "5 of 20 early, much left: loss of all, kept above excluded",
            difference(kept.all_later, out.all_later),
            0.0,
        ),
        at_most(
            "5 of 20 late, much left: loss of all, kept above excluded",
            difference(late_kept.all_later, late_out.all_later),
            0.0,
            gates=False,
        ),
        at_most(
            "a digit's only client, much left: loss of all, kept above excluded",
            difference(own_kept.all_later, own_out.all_later),
            -0.2,
        ),
        at_least(
            "a digit's only client, much left: loss of those left, kept above excluded",
            difference(own_kept.left_later, own_out.left_later),
            0.0,
            gates=False,
        ),
    ]
