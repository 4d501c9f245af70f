"""Top-k sparsification: the k values of the largest magnitude travel exactly.

Aji and Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP
2017; as a contraction with δ ≥ k/d: Stich, Cordonnier, Jaggi, "Sparsified SGD
with Memory", NeurIPS 2018, Lemma A.1.
"""

from typing import ClassVar, Literal

from fedcore.arrays import take
from fedcore.compressors._ratio import RatioConfig
from fedcore.compressors.base import Keys
from fedcore.kernels import largest_indices
from fedcore.payloads import Payload, sparse_payload
from fedcore.typing import Array


class TopK(RatioConfig):
    """The k = max(1, ⌊ratio·d⌋) values of the largest magnitude."""

    format: ClassVar[str] = "sparse"
    kind: Literal["top_k"] = "top_k"

    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """Returns the message of the ``k`` largest; δ ≥ k/d."""
        indices_K = largest_indices(delta_D, k)
        return sparse_payload(delta_D.shape[-1], indices_K, take(delta_D, indices_K))
