"""Gaia's significance filter: what changes a parameter by more than a share of it.

Hsieh, Harlap, Vijaykumar, Konomis, Ganger, Gibbons, Mutlu, "Gaia: Geo-Distributed
Machine Learning Approaching LAN Speeds", NSDI 2017, §4.1 and §5.2: an update is
accumulated until |update / value| exceeds a threshold T, and T falls as 1/√t. The
accumulated updates are the error memory's u = e + Δ, the values those of the public
model W that Δ is a change of, and t is W's version; a value of zero lets every change
pass. So a message is long where the model still moves, and short where it has settled.

The authors' later code (github.com/kevinhsieh/non_iid_dml, ``tablet-server.cpp``)
lets T fall as the learning rate does, and can send everything in each n-th clock; both
are settings here. There a site trains on its own copy, in which all of its changes
count at once: that is ``own_view`` of ``error_feedback`` here.

We depart from it in one point: the largest magnitude is always sent. So it is a
contraction with δ ≥ 1/d, and an update in which nothing is significant gets through
bit by bit instead of waiting for T to fall. Without a known model, all values are sent.
"""

import math
from typing import Literal, Self

from pydantic import Field

from fedcore.arrays import array_namespace, like
from fedcore.compressors._ragged import sparse_rows
from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    Context,
    stateless,
)
from fedcore.config import Count
from fedcore.payloads import Declared, Layout, Payload, dense_payload
from fedcore.typing import Array


class Gaia(CompressorConfig):
    """The values that are more than a share of the parameters that they change."""

    kind: Literal["gaia"] = "gaia"
    threshold: float = Field(default=0.01, ge=0)
    """T: changes by a larger share of the parameter are significant. The paper takes
    0.01, and 0.2 for small convolutional networks. 0: all changes are."""
    decay: Literal["root", "rate", "none"] = "root"
    """How the threshold falls with the version t: as 1/√t, as the clients' learning
    rate does, or not at all."""
    flush: Count | None = None
    """All changes are significant in each version that is a multiple of this; none: in
    no version."""

    @property
    def bias(self) -> Class:
        """The largest value is always among those that are sent."""
        return "contraction"

    def shorter(self, share: float) -> Self | None:
        """Returns these settings with a higher threshold."""
        return self.model_copy(update={"threshold": self.threshold / share})

    def list_formats(self, layout: Layout) -> Declared:
        """Returns both formats: without a known model all values are sent."""
        return {"sparse": sum(layout), "dense": sum(layout)}

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout."""
        return stateless(lambda delta_D, _: dense_payload(delta_D), self._adapt)

    def _adapt(self, context: Context) -> Compressor:
        threshold = self.threshold_at(context.version, context.rate)
        return stateless(
            lambda delta_D, _: _encode(delta_D, context.public_D, threshold)
        )

    def threshold_at(self, version: int, rate: float) -> float:
        """Returns T for changes of a version; ``rate`` is as in :class:`Context`."""
        if self.flush is not None and version % self.flush == 0:
            return 0.0
        if self.decay == "root":
            return self.threshold / math.sqrt(max(1, version))
        return self.threshold * (rate if self.decay == "rate" else 1.0)


def _encode(delta_D: Array, public_D: Array, threshold: float) -> Payload:
    values_D = like(public_D, delta_D)

    def select(number: int, row_D: Array) -> Array:
        own_D = values_D if values_D.ndim == 1 else values_D[number]
        return _significant(row_D, own_D, threshold)

    return sparse_rows(delta_D, select)


def _significant(delta_D: Array, value_D: Array, threshold: float) -> Array:
    """Returns the places, ascending."""
    xp = array_namespace(delta_D)
    magnitudes_D = xp.abs(delta_D)
    marks_D = magnitudes_D > threshold * xp.abs(value_D)
    if len(delta_D):
        marks_D[xp.argmax(magnitudes_D)] = True
    return xp.nonzero(marks_D)[0]
