"""The Hessian replaced by the Fisher matrix of a few samples.

Xue et al., "Toward Understanding the Influence of Individual Clients in Federated
Learning", AAAI 2021, arXiv 2012.10936, §4: H ≈ (1/N_s) Σ g gᵀ over the gradients of
N_s = 50 samples. The paper's equations were not within reach as text; the product is
derived from that sentence.
"""

from fedcore.influence.base import Product
from fedcore.typing import Array

SAMPLES = 50  # N_s of the paper


def fisher_product(gradients_SD: Array) -> Product:
    """Returns v ↦ (1/N_s) Σ_s g_s (g_s · v) for each row of v.

    Args:
        gradients_SD: a gradient for each of the N_s samples, shape (N_s, D).
    """
    count = len(gradients_SD)

    def product(v_CD: Array) -> Array:
        return ((v_CD @ gradients_SD.T) @ gradients_SD) / count

    return product
