"""DoubleSqueeze: single steps, compressed with error memories on both sides.

Tang, Yu, Lian, Zhang, Liu, "DoubleSqueeze: Parallel Stochastic Gradient Descent with
Double-pass Error-Compensated Compression", ICML 2019, arXiv 1905.05957, Algorithm 1:
every worker sends C(g + δ_i), and the server C(mean + δ). The compressor is the paper's
1-bit one, signs times their mean magnitude; take top_k for its other one. The memories
hold updates here, which have the learning rate inside, and the server's is W - X.
"""

from typing import ClassVar, Literal

from fedcore.clients import AnyClientAlgorithm, LocalSGD
from fedcore.compressors import AnyCompressor, ErrorFeedback, SignL1
from fedcore.recipes.base import SynchronousConfig
from fedcore.selection import All, AnySelection


class DoubleSqueeze(SynchronousConfig):
    """Synchronous SGD, with one bit a value in both directions."""

    paper: ClassVar[str] = "Tang et al., ICML 2019"
    kind: Literal["double_squeeze"] = "double_squeeze"
    selection: AnySelection = All()
    client: AnyClientAlgorithm = LocalSGD(steps=1)
    uplink: AnyCompressor = ErrorFeedback(inner=SignL1())
    downlink: AnyCompressor = SignL1()
