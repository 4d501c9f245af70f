"""STC: sparse ternary compression of single steps, with memories on both sides.

Sattler et al., IEEE TNNLS 2020, Algorithm 2: one local step a round, 1/400 of the
values up and down as signs times their mean (:mod:`fedcore.compressors.stc`), the rest
kept in error memories. The server's memory is W - X here. The rule is that of the
authors' code; 1/400 is quoted from memory of the paper, of which only the abstract was
within reach.
"""

from typing import ClassVar, Literal

from fedcore import compressors
from fedcore.clients import AnyClientAlgorithm, LocalSGD
from fedcore.compressors import AnyCompressor, ErrorFeedback
from fedcore.recipes.base import SynchronousConfig


class STC(SynchronousConfig):
    """Synchronous, with few values as signs in both directions."""

    paper: ClassVar[str] = "Sattler et al., TNNLS 2020"
    kind: Literal["stc"] = "stc"
    client: AnyClientAlgorithm = LocalSGD(steps=1)
    uplink: AnyCompressor = ErrorFeedback(inner=compressors.STC(ratio=1 / 400))
    downlink: AnyCompressor = compressors.STC(ratio=1 / 400)
