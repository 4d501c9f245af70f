"""Dead-zone quantisation: the largest values as whole multiples of a power of two.

Hard thresholds with error feedback: Sahu, Dutta, Abdelmoniem, Banerjee, Canini,
Kalnis, "Rethinking Gradient Sparsification as Total Error Minimization", NeurIPS 2021,
arXiv 2108.00951. The dead zone around zero is that of image coders (Taubman and
Marcellin, "JPEG2000", 2002, §3.2.7). Of the k largest magnitudes the smallest is the
threshold t; the step s is the smallest power of two that is no smaller than t, and a
kept value x becomes sign(x)·⌊|x|/s + ½⌋·s. Since |x| ≥ t > s/2, none of them moves
further away and all come closer: a contraction.

Powers of two make the messages add up without rounding: a client that missed many
versions is sent their sum instead of all of them (:func:`fedcore.payloads.merge`).
"""

from typing import Any, ClassVar, Literal

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, like, take
from fedcore.compressors._ratio import RatioConfig
from fedcore.compressors.base import Keys
from fedcore.kernels import largest_indices
from fedcore.payloads import Payload, levels_payload
from fedcore.payloads.levels import MOST
from fedcore.typing import Array

_SMALLEST = float(np.finfo(np.float32).tiny)  # below it values lose their precision


class DeadZone(RatioConfig):
    """The k = max(1, ⌊ratio·d⌋) largest values, as multiples of a power of two."""

    format: ClassVar[str] = "levels"
    kind: Literal["dead_zone"] = "dead_zone"

    @property
    def adds_exactly(self) -> bool:
        """Whole multiples of powers of two do."""
        return True

    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """Returns the message of the ``k`` largest."""
        xp = array_namespace(delta_D)
        dim = delta_D.shape[-1]
        indices_K = largest_indices(delta_D, k)
        values_K = take(delta_D, indices_K)
        magnitudes_K = xp.abs(values_K)
        speaks_K = magnitudes_K >= _SMALLEST
        thresholds = xp.where(speaks_K, magnitudes_K, xp.ones_like(values_K) * np.inf)
        steps = like(_power_of_two_above(as_numpy(thresholds)), delta_D)
        whole_K = xp.clip(xp.floor(magnitudes_K / steps + 0.5), 0, MOST)
        signed_K = xp.where(
            speaks_K, whole_K * xp.sign(values_K), xp.zeros_like(values_K)
        )
        levels_K = xp.astype(signed_K, xp.int32)
        return levels_payload(dim, indices_K, levels_K, steps, (dim,))


def _power_of_two_above(magnitudes_K: Any) -> Any:
    """Returns the least power of two that is not below the smallest value, or 1."""
    threshold = np.min(magnitudes_K, axis=-1, keepdims=True, initial=np.inf)
    fraction, exponent = np.frexp(threshold)  # in [1/2, 1)
    above = np.ldexp(np.float32(1), exponent - (fraction == 0.5))
    return np.where(np.isinf(threshold), np.float32(1), above)
