"""Claim 19: groups that change every round are as good as averaging over everybody.

Wang et al., "Divide-and-Shuffle Synchronization for Distributed Machine Learning",
arXiv 2007.03298. Sixteen workers with equal parts of the digits, or with two shards
each; every round each takes one step on 16 images, and averages its model with those of
its group. Real coordinator, real participants, uncompressed. Full averaging is one
group; four groups are drawn anew each round, are the rows and columns of a square in
turn, or stay the same (the negative control).

All messages of a server pass one link, so time is that of a model in which workers send
to each other: Qi, Sparks, Talwalkar, "Paleo", ICLR 2017, with n the size of a group, S
the bytes of a model and B the bandwidth: one-to-all 2(n - 1)S/B, a tree 2⌈log2 n⌉S/B, a
butterfly ⌈log2 n⌉S/B. Groups exchange at the same time. A local step takes 10 ms, and B
is 10 Mbit/s, so that one model takes 7.7 ms.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

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
from benchmarks.claims.setup import Federation, digits
from fedcore.clients import DSSync
from fedcore.partitions import Partition, iid, shards
from fedcore.recipes import DSSync as Recipe
from fedcore.typing import Seconds

WORKERS, GROUPS, ROUNDS, EVERY, GOAL = 16, 4, 400, 5, 0.95
STEP, BANDWIDTH, BYTES = 0.01, 10e6 / 8, 2410 * 4
FULL, RANDOM = "full averaging", "groups of 4, drawn anew"
CLIENT = DSSync(groups=GROUPS, lr=0.2, steps=1, batch=16)
METHODS: Mapping[str, DSSync] = {
    FULL: CLIENT.model_copy(update={"groups": 1}),
    RANDOM: CLIENT,
    "groups of 4, rows and columns": CLIENT.model_copy(update={"shuffle": "grid"}),
    "groups of 4, never changed": CLIENT.model_copy(update={"shuffle": "fixed"}),
}
FIXED = "groups of 4, never changed"
PARTS: Mapping[str, Callable[[int], Partition]] = {
    "equal parts": lambda seed: iid(digits("train")[1], clients=WORKERS, seed=seed),
    "two shards": lambda seed: shards(digits("train")[1], clients=WORKERS, seed=seed),
}
EXCHANGES: Mapping[str, Callable[[int], float]] = {
    "one-to-all": lambda n: 2 * (n - 1),
    "tree": lambda n: 2 * math.ceil(math.log2(n)),
    "butterfly": lambda n: math.ceil(math.log2(n)),
}


class Found(NamedTuple):
    """What a run came to."""

    public: float  # accuracy of the mean of all workers' models
    own: float  # mean accuracy of the workers' models
    distance: float  # of their models from the mean, as a share of its norm
    rounds: float  # until the public model first has the accuracy of the goal


def train(client: DSSync, parts: Partition, rounds: int, seed: int) -> Found:
    """Trains all workers for so many rounds."""
    config = Recipe(buffer=WORKERS, synchronous=False, client=client)
    made, first = Federation(config, parts, seed), float(rounds)
    for number in range(1, rounds + 1):
        made.round()
        if number % EVERY == 0 and first == rounds and made.quality().accuracy >= GOAL:
            first = float(number)
    state = made.coordinator.state
    public_D = state.published.public_D
    models_GD = np.array([state.model_of(group) for group in range(client.groups)])
    beside_G = np.linalg.norm(models_GD - public_D, axis=1)
    return Found(
        public=made.quality().accuracy,
        own=float(np.mean([made.quality_of(each).accuracy for each in models_GD])),
        distance=float(np.sqrt((beside_G**2).mean()) / np.linalg.norm(public_D)),
        rounds=first,
    )


def seconds(rounds: float, members: int, exchange: Callable[[int], float]) -> Seconds:
    """How long so many rounds take in groups of so many."""
    return rounds * (STEP + exchange(members) * BYTES / BANDWIDTH)


def run(scale: Scale) -> Report:
    """Claim 19."""
    rounds = scale.of(ROUNDS, 5)
    found = {
        data: {
            name: [train(client, part(seed), rounds, seed) for seed in scale.seeds]
            for name, client in METHODS.items()
        }
        for data, part in PARTS.items()
    }
    columns = ("accuracy of the mean", "of the workers' models", "distance", "rounds")
    accuracies = [
        Table(
            f"{data}, {rounds} rounds; the last column: rounds to {GOAL:g}",
            columns,
            {
                name: [
                    Cell([each.public for each in seeds]),
                    Cell([each.own for each in seeds]),
                    Cell([each.distance for each in seeds]),
                    Cell([each.rounds for each in seeds], budget=rounds),
                ]
                for name, seeds in rows.items()
            },
        )
        for data, rows in found.items()
    ]
    times = [
        Table(
            f"{data}: modelled seconds to {GOAL:g}",
            tuple(EXCHANGES),
            {
                name: [
                    Cell([seconds(each.rounds, _members(name), way) for each in seeds])
                    for way in EXCHANGES.values()
                ]
                for name, seeds in rows.items()
                if name != FIXED  # the goal is not reached in every run
            },
        )
        for data, rows in found.items()
    ]
    return Report(
        number=19,
        title="Groups that change every round are as good as averaging over everybody",
        source="Wang et al., arXiv 2007.03298",
        tables=[*accuracies, *times],
        checks=[
            check
            for (data, rows), time in zip(found.items(), times, strict=True)
            for check in (
                at_most(
                    f"{data}: accuracy lost by groups that are drawn anew",
                    difference(_of(rows, FULL), _of(rows, RANDOM)),
                    0.01,
                ),
                at_least(
                    f"{data}: accuracy of a worker's model lost by fixed groups",
                    difference(_of(rows, FULL, "own"), _of(rows, FIXED, "own")),
                    0.01,
                    gates=data == "two shards",
                ),
                at_least(
                    f"{data}: times as soon in a tree",
                    ratio(time.rows[FULL][1], time.rows[RANDOM][1]),
                    1.5,
                ),
            )
        ],
    )


def _members(name: str) -> int:
    return WORKERS if name == FULL else WORKERS // GROUPS


def _of(rows: Mapping[str, list[Found]], name: str, field: str = "public") -> Cell:
    return Cell([getattr(each, field) for each in rows[name]])
