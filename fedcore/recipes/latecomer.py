"""Latecomer, the default: late, lost and tiny updates still count.

Asynchronous clients in turn and a buffer. Late updates are dampened by the square root
of their staleness (FedBuff, AISTATS 2022), and further where very many versions are
made meanwhile (Koloskova et al., NeurIPS 2022); rare labels are lifted (AdaSGD's boost,
Middleware 2020); the models are averaged at the server (Defazio et al., NeurIPS 2024).
The largest values travel as multiples of a power of two, with error memories in both
directions (double compression, AAAI 2021), exact under any dropout by the exactly-once
protocol of this project (docs/protocol.md). All of it was chosen by measurement:
docs/decisions/0014-latecomers-codecs.md, 0023-latecomers-weights.md and
0051-fresh-updates-count-twice.md.
"""

from typing import ClassVar, Literal

from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import AnyCompressor, DeadZone, ErrorFeedback
from fedcore.config import Count
from fedcore.selection import All, AnySelection
from fedcore.server_optimizers import AnyServerOptimizer, ScheduleFree
from fedcore.staleness import AnyStaleness, DelayAdaptive, LabelBoost


class Latecomer(AlgorithmConfig):
    """A buffer, weights that keep rare labels, averaging, and two error memories."""

    paper: ClassVar[str] = "this project"
    kind: Literal["latecomer"] = "latecomer"
    buffer: Count = 4
    selection: AnySelection = All()
    staleness: AnyStaleness = LabelBoost(inner=DelayAdaptive(limit=2.5))
    server: AnyServerOptimizer = ScheduleFree(lr=2.0)
    uplink: AnyCompressor = ErrorFeedback(inner=DeadZone(ratio=0.05))
    downlink: AnyCompressor = DeadZone(ratio=0.02)
