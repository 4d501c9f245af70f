"""What the sign methods share: one bit a value, and a scale for each part."""

from collections.abc import Callable
from itertools import groupby

from fedcore.arrays import array_namespace
from fedcore.compressors.base import Keys
from fedcore.kernels import positive
from fedcore.payloads import Layout, Payload, sign_payload
from fedcore.rng import seeds
from fedcore.typing import Array


def encode_signs(
    delta_D: Array, key: Keys, parts: Layout, scale: Callable[[Array], Array]
) -> Payload:
    """Signs, times ``scale`` of each part; a zero is plus or minus at random.

    The scale is told parts of one size, as rows.
    """
    xp = array_namespace(delta_D)
    at, scales = 0, []
    for size, equals in groupby(parts):  # neighbours of one size in one call
        count = len(list(equals))
        rows = delta_D[..., at : at + count * size]
        scales.append(scale(xp.reshape(rows, (*delta_D.shape[:-1], count, size))))
        at += count * size
    positive_D = positive(delta_D, seeds(key))
    return sign_payload(positive_D, xp.concat(scales, axis=-1), parts)
