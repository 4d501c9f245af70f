"""Claim 34: clients that arrive in the middle of a training, and clients that depart.

Ruan, Zhang, Liang, Joe-Wong, "Towards Flexible Device Participation in Federated
Learning", AISTATS 2021, arXiv 2006.06954. We read the abstract; the rest is from
memory: after an arrival training recovers sooner if the client counts for three times
as much at first and the learning rate begins anew ("fast reboot"); a departed client's
goal is to be kept if little of the training is left, and excluded if much is.

Twenty clients with the digits, of whom all that are there train in each version. One of
them comes late or leaves early, or five leave. They have two shards each; or the one has
all images of a digit that the seed draws, and the others two shards of the rest. The
rate of version t is LR/(1 + t/DECAY). A restart is imitated: the schedule knows when
the client comes. Keeping is MIFA, whose server repeats a departed client's last update;
excluding is the mean. "Loss" is that of training images with their true labels.
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

CLIENTS, EPOCHS, BATCH, LR, DECAY = 20, 2, 16, 0.2, 30
COMES, AFTER = 30, 30  # versions before the late client, and with it
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

    def loss(self, rows: Rows) -> float:
        """Returns the public model's loss of these training images."""
        x, y = digits("train")
        public_D = self.coordinator.state.published.public_D
        return self.model.quality(public_D, x[rows], y[rows]).loss


class Arrival(NamedTuple):
    """How a federation treats a late client."""

    boost: float = 0.0
    restarts: bool = False
    """Whether the learning rate begins anew with the arrival."""
    falls: bool = True
    """Whether the learning rate falls at all."""


def rates(until: int, arrival: Arrival) -> Points:
    """Returns the shares of LR for versions below ``until``."""
    ages = [
        t - COMES if arrival.restarts and t >= COMES else t * arrival.falls
        for t in range(until)
    ]
    shares = (1 / (1 + age / DECAY) for age in ages)
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
    arrival: Arrival, seed: int, after: int, *, alone: bool, noise: float = 0.0
) -> list[float]:
    """Returns the loss of all images, of the version without the late client and on."""
    parts = partition(seed, alone=alone)
    counted = aggregators.FlexibleParticipation(scheme="B", boost=arrival.boost)
    schedule = rates(COMES + after, arrival)
    made = Changing(
        config(recipes.FlexibleParticipation, counted, schedule), parts, seed, noise
    )
    everything = np.concatenate(parts)
    for _ in range(COMES):
        made.make_version(range(1, CLIENTS))
    losses = [made.loss(everything)]
    for _ in range(after):
        made.make_version(range(CLIENTS))
        losses.append(made.loss(everything))
    return losses


class Arrived(NamedTuple):
    """What follows from the arrival of a client with a digit of its own, or none."""

    versions: Cell
    """Until the loss is TARGET."""
    soon: Cell
    """Loss after five versions."""
    later: Cell
    noisy_soon: Cell
    """The same with wrong labels."""
    noisy_later: Cell
    usual: Cell
    """Loss after five versions where the client has two shards as others."""


def arrived(arrival: Arrival, scale: Scale) -> Arrived:
    """Measures one way to treat a late client."""
    after = scale.of(AFTER, 5)
    clean, noisy, usual = (
        [
            losses_after_arrival(arrival, seed, n, alone=own, noise=noise)
            for seed in scale.seeds
        ]
        for own, noise, n in ((True, 0.0, after), (True, NOISE, after), (False, 0.0, 5))
    )
    reached = [
        next((t for t, loss in enumerate(each) if loss <= TARGET), after)
        for each in clean
    ]
    at = [
        Cell([each[t] for each in found])
        for found, t in (
            (clean, 5),
            (clean, after),
            (noisy, 5),
            (noisy, after),
            (usual, 5),
        )
    ]
    return Arrived(Cell(reached, budget=after), *at)


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


def losses_after_departure(
    departure: Departure, keeps: bool, seed: int, after: Sequence[int]
) -> list[float]:
    """Returns the losses of all images and of those that are left, in turn."""
    gone, version, alone = departure
    parts = partition(seed, alone=alone)
    aggregator = aggregators.MIFA() if keeps else aggregators.WeightedMean()
    schedule = rates(version + max(after), Arrival())
    made = Changing(config(recipes.FedAvg, aggregator, schedule), parts, seed, 0.0)
    for _ in range(version):
        made.make_version(range(CLIENTS))
    losses = []
    for since in range(1, max(after) + 1):
        made.make_version(range(gone, CLIENTS))
        if since in after:
            losses += [
                made.loss(np.concatenate(each)) for each in (parts, parts[gone:])
            ]
    return losses


def run(scale: Scale) -> Report:
    """Measures the claim."""
    ways = {
        "as any other": Arrival(),
        "boost 2": Arrival(BOOST),
        "the rate restarts": Arrival(restarts=True),
        "both": Arrival(BOOST, restarts=True),
        "boost 2, the rate never falls": Arrival(BOOST, falls=False),
    }
    after = [scale.of(left, quick) for left, quick in zip(LEFT, (1, 2), strict=True)]
    came = {name: arrived(way, scale) for name, way in ways.items()}
    went = {
        f"{name}: {'kept' if keeps else 'excluded'}": [
            Cell(values)
            for values in zip(
                *(
                    losses_after_departure(each, keeps, seed, after)
                    for seed in scale.seeds
                ),
                strict=True,
            )
        ]
        for name, each in DEPARTURES.items()
        for keeps in (False, True)
    }
    plain, boost, _, both, constant = came.values()
    early_out, early_kept, _, _, alone_out, alone_kept = went.values()
    return Report(
        number=34,
        title="An arrival that counts for more at first is learnt sooner",
        source="Ruan, Zhang, Liang, Joe-Wong, AISTATS 2021",
        tables=[
            Table(
                f"A client with a digit of its own comes at version {COMES}",
                (
                    f"versions to {TARGET:g}",
                    "loss @5",
                    f"loss @{AFTER}",
                    "wrong labels @5",
                    f"wrong labels @{AFTER}",
                    "two shards @5",
                ),
                came,
            ),
            Table(
                "Loss after departures, of all images and of those left",
                [f"{whose} @{left}" for left in LEFT for whose in ("all", "left")],
                went,
            ),
        ],
        checks=[
            at_most(
                "versions with a boost over without",
                ratio(boost.versions, plain.versions),
                0.85,
            ),
        ],
    )
