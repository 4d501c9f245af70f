"""What the sign methods share: one bit a value, and a scale for each part."""

from collections.abc import Callable
from itertools import groupby

import numpy as np

from fedcore.arrays import array_namespace, like, pieces
from fedcore.compressors.base import Keys
from fedcore.payloads import Layout, Payload, sign_payload
from fedcore.rng import bits, seeds
from fedcore.typing import Array


def encode_signs(
    delta_D: Array, key: Keys, parts: Layout, scale: Callable[[Array], Array]
) -> Payload:
    """Signs, times ``scale`` of each part; a zero is plus or minus at random.

    The scale is told parts of one size, as rows.
    """
    xp = array_namespace(delta_D)
    positive_D = delta_D > 0
    for part in pieces(delta_D):
        zero = delta_D[..., part] == 0
        if bool(xp.any(zero)):
            words = bits(seeds(key), part.start, part.stop - part.start)
            coin = like((words >> np.uint64(63)).astype(bool), delta_D)
            positive_D[..., part] = xp.where(zero, coin, positive_D[..., part])
    at, scales = 0, []
    for size, equals in groupby(parts):  # neighbours of one size in one call
        count = len(list(equals))
        rows = delta_D[..., at : at + count * size]
        scales.append(scale(xp.reshape(rows, (*delta_D.shape[:-1], count, size))))
        at += count * size
    return sign_payload(positive_D, xp.concat(scales, axis=-1), parts)
