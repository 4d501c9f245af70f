"""Gaia: sites that exchange significant changes only, over slow links.

Hsieh et al., NSDI 2017 (:mod:`fedcore.compressors.gaia`): a site trains on its own copy
of the model, in which all of its changes count at once, and sends those that are
significant; they are added to the copies of the others as they arrive. A site that is
too far ahead of the slowest one waits (the mirror clock, here ``ahead``).

Here a site is a client, and the copies meet at the server instead of in pairs: it adds
what a site sends, and publishes what is significant of that. Decision 41 says what else
differs, and why there is no selective barrier. By how many clocks a site may be ahead
is ours; the paper was not within reach.
"""

from typing import ClassVar, Literal

from fedcore import compressors
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import AnyClientAlgorithm, LocalSGD
from fedcore.compressors import AnyCompressor, ErrorFeedback
from fedcore.config import Count, Versions


class Gaia(AlgorithmConfig):
    """Asynchronous sites with significance filters in both directions."""

    paper: ClassVar[str] = "Hsieh et al., NSDI 2017"
    kind: Literal["gaia"] = "gaia"
    buffer: Count = 1
    ahead: Versions | None = 2
    client: AnyClientAlgorithm = LocalSGD(steps=1)
    uplink: AnyCompressor = ErrorFeedback(inner=compressors.Gaia(), own_view=True)
    downlink: AnyCompressor = compressors.Gaia()
