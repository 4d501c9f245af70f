"""Claim 17: clients that come once want an unbiased quantiser, not a memory.

With an error memory, the next message of a client repays what the last one left out.
Here there is no next message: 10 new clients a round, each of which takes part once,
with 16 images of a mixture of classes drawn from Dirichlet(.3). (An image may belong to
several clients, because there are fewer images than places.) 5 local steps, lr .1, the
downlink is sign_l1 with the server's memory, which needs no client to return. Biased
compressors without a memory and with one are compared with unbiased ones (Alistarh et
al., "QSGD", NeurIPS 2017), whose errors cancel in the mean over a cohort; all else is
the same. CAFe (Ortega et al., arXiv 2412.04538), which compresses the difference to the
last aggregate, was not tried.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    difference,
)
from benchmarks.claims.setup import CLASSES, Federation, digits, in_rounds
from fedcore.compressors import (
    QSGD,
    STC,
    CompressorConfig,
    DeadZone,
    ErrorFeedback,
    Identity,
    Natural,
    RandomK,
    Rotation,
    SignL1,
    TopK,
    Uniform,
)
from fedcore.partitions import Partition
from fedcore.rng import Key

COHORT, IMAGES, ALPHA = 10, 16, 0.3
PLAIN = "uncompressed"
BIASED: dict[str, CompressorConfig] = {
    "top_k 1 %": TopK(ratio=0.01),
    "dead_zone 5 %": DeadZone(ratio=0.05),
    "stc 5 %": STC(ratio=0.05),
    "uniform 2 bits": Uniform(bits=2),
    "sign_l1": SignL1(),
    "rotation, sign_l1": Rotation(),
}
UNBIASED: dict[str, CompressorConfig] = {
    "random_k 1.5 %, unbiased": RandomK(ratio=0.015, unbiased=True),
    "qsgd 2 bits": QSGD(bits=2),
    "uniform 2 bits, stochastic": Uniform(bits=2, rounding="stochastic"),
    "rotation, sign_l1, unbiased": Rotation(scale="unbiased"),
    "qsgd 4 bits": QSGD(bits=4),
    "rotation, uniform 2 bits, stochastic": Rotation(
        inner=Uniform(bits=2, rounding="stochastic")
    ),
    "natural": Natural(),
}
CHOSEN, SMALL = "qsgd 2 bits", ("dead_zone 5 %", "stc 5 %", "uniform 2 bits")


class Outcome(NamedTuple):
    """The metrics of one run, and the bytes of one update."""

    accuracy: float
    loss: float
    nbytes: float  # of one update


def run(scale: Scale) -> Report:
    """All uplinks, and the biased ones with memories that nobody comes back to."""
    rounds = scale.of(150, 6)
    memories = {f"{name}, memory": ErrorFeedback(inner=BIASED[name]) for name in SMALL}
    uplinks = {PLAIN: Identity(), **BIASED, **memories, **UNBIASED}
    rows = {
        name: [
            Cell(column)
            for column in zip(
                *(train(uplink, rounds, seed) for seed in scale.seeds), strict=True
            )
        ]
        for name, uplink in uplinks.items()
    }
    ours = rows[CHOSEN]
    checks: list[Check] = [
        at_most(
            f"{PLAIN} - {CHOSEN}: accuracy", difference(rows[PLAIN][0], ours[0]), 0.015
        )
    ]
    for name in SMALL:
        lost = [
            float(abs(np.subtract(one.values, other.values)).max())
            for one, other in zip(rows[name], rows[f"{name}, memory"], strict=True)
        ]
        better = difference(rows[name][1], ours[1])
        checks += [
            at_most(f"{name}: what a memory changes", max(lost), 0.0),
            at_least(f"{name} - {CHOSEN}: loss", better, 0.02),
        ]
    return Report(
        number=17,
        title="Clients that come once want an unbiased quantiser",
        source="this project; Alistarh et al., NeurIPS 2017",
        tables=[
            Table(
                f"{rounds * COHORT:,} clients, each of them once",
                ("accuracy", "loss", "bytes an update"),
                rows,
            )
        ],
        checks=checks,
    )


def once(clients: int, seed: int) -> Partition:
    """The images of clients with class mixtures of their own."""
    rng, y = Key.root(seed).fold_in("seen once").generator(), digits("train")[1]
    of_class = [np.flatnonzero(y == label) for label in range(CLASSES)]
    mixtures_NC = rng.dirichlet([ALPHA] * CLASSES, clients)
    return [
        np.array(
            [
                rng.choice(of_class[label])
                for label in rng.choice(CLASSES, IMAGES, p=mixture_C)
            ]
        )
        for mixture_C in mixtures_NC
    ]


def train(uplink: CompressorConfig, rounds: int, seed: int) -> Outcome:
    """Trains with new clients in every round."""
    clients = rounds * COHORT
    config = in_rounds(COHORT, uplink, SignL1())
    federation = Federation(config, once(clients, seed), seed)
    for first in range(0, clients, COHORT):
        cohort = range(first, first + COHORT)
        for client in cohort:
            federation.pull(client)
        for client in cohort:
            if federation.train(client):
                federation.push(client)
    last = federation.quality()
    return Outcome(last.accuracy, last.loss, federation.sent / clients)
