"""Latecomer, the default: late, lost and tiny updates still count.

Asynchronous clients and a buffer (FedBuff, AISTATS 2022); staleness weights that
adapt and lift rare labels (AdaSGD, Middleware 2020); the largest values as multiples of
a power of two, with error memories in both directions (double compression, AAAI 2021),
exact under any dropout by the exactly-once protocol of this project
(docs/protocol.md). The codecs were chosen by measurement
(docs/decisions/0014-latecomers-codecs.md). AdaSGD's s is 90 here and
not 99.7: otherwise one client of twenty that is always late sets the threshold
itself, and its class is never learnt (docs/papers.md).
"""

from typing import Literal

from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import AnyCompressor, DeadZone, ErrorFeedback
from fedcore.config import Count
from fedcore.staleness import AdaSGD, AnyStaleness


class Latecomer(AlgorithmConfig):
    """AdaSGD, a buffer, and double error compensation."""

    kind: Literal["latecomer"] = "latecomer"
    buffer: Count = 4
    staleness: AnyStaleness = AdaSGD(percentile=90)
    uplink: AnyCompressor = ErrorFeedback(inner=DeadZone(ratio=0.05))
    downlink: AnyCompressor = DeadZone(ratio=0.02)

    @property
    def paper(self) -> str:
        """Where the recipe comes from."""
        return "this project"
