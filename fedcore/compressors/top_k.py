"""Top-k sparsification: the k values of the largest magnitude travel exactly.

Aji and Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP
2017; as a contraction with δ ≥ k/d: Stich, Cordonnier, Jaggi, "Sparsified SGD
with Memory", NeurIPS 2018, Lemma A.1.
"""

from typing import Literal

from pydantic import Field

from fedcore.arrays import largest_indices, take
from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    kept,
    stateless,
)
from fedcore.payloads import Layout, Payload, sparse_payload
from fedcore.typing import Array


class TopK(CompressorConfig):
    """The k = max(1, ⌊ratio·d⌋) values of the largest magnitude."""

    kind: Literal["top_k"] = "top_k"
    ratio: float = Field(default=0.01, gt=0, le=1)
    """Share of the values that travel."""

    @property
    def bias(self) -> Class:
        """δ ≥ k/d."""
        return "contraction"

    def build(self, layout: Layout) -> Compressor:
        """The compressor for this layout."""
        k = kept(self.ratio, sum(layout))
        return stateless(lambda delta_D, _: _encode(delta_D, k))


def _encode(delta_D: Array, k: int) -> Payload:
    indices_K = largest_indices(delta_D, k)
    return sparse_payload(delta_D.shape[-1], indices_K, take(delta_D, indices_K))
