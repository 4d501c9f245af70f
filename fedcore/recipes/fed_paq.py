"""FedPAQ: local steps, a part of the clients, and quantised updates.

Reisizadeh, Mokhtari, Hassani, Jadbabaie, Pedarsani, "FedPAQ: A Communication-Efficient
Federated Learning Method with Periodic Averaging and Quantization", AISTATS 2020, arXiv
1909.13014: the server averages the quantised updates of a random cohort plainly. The
quantiser is QSGD (:mod:`fedcore.compressors.qsgd`), in buckets. Of the paper only the
abstract was within reach, which names these three features; Algorithm 1 and Example 1
are quoted from memory.
"""

from typing import ClassVar, Literal

from fedcore.clients import AnyClientAlgorithm, LocalSGD
from fedcore.compressors import QSGD, AnyCompressor
from fedcore.recipes.base import SynchronousConfig


class FedPAQ(SynchronousConfig):
    """Synchronous local SGD with unbiased quantised updates."""

    paper: ClassVar[str] = "Reisizadeh et al., AISTATS 2020"
    kind: Literal["fed_paq"] = "fed_paq"
    client: AnyClientAlgorithm = LocalSGD(steps=5)
    uplink: AnyCompressor = QSGD(bits=4)
