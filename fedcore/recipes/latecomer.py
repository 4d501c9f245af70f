"""Latecomer, the default: late, lost and tiny updates still count.

Asynchronous clients and a buffer (FedBuff, AISTATS 2022); staleness weights that
adapt and lift rare labels (AdaSGD, Middleware 2020); top-k with error memories in
both directions (double compression, AAAI 2021), exact under any dropout by the
exactly-once protocol of this project (docs/protocol.md). AdaSGD's s is 90 here and
not 99.7: otherwise one client of twenty that is always late sets the threshold
itself, and its class is never learnt (docs/papers.md).
"""

from typing import Literal

from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import AnyCompressor, ErrorFeedback, TopK
from fedcore.config import Count
from fedcore.staleness import AdaSGD, AnyStaleness


class Latecomer(AlgorithmConfig):
    """AdaSGD, a buffer, and double error compensation."""

    kind: Literal["latecomer"] = "latecomer"
    buffer: Count = 4
    staleness: AnyStaleness = AdaSGD(percentile=90)
    uplink: AnyCompressor = ErrorFeedback(inner=TopK(ratio=0.01))
    downlink: AnyCompressor = TopK(ratio=0.05)

    @property
    def paper(self) -> str:
        """Where the recipe comes from."""
        return "this project"
