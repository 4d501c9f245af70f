"""The frame of the sign methods: one bit a value, and a scale for each part."""

from abc import abstractmethod
from collections.abc import Callable
from itertools import groupby
from typing import ClassVar, Literal

from fedcore.arrays import array_namespace
from fedcore.compressors._every_value import EveryValueConfig
from fedcore.compressors.base import Keys
from fedcore.kernels import positive
from fedcore.payloads import Layout, Payload, sign_payload
from fedcore.rng import seeds
from fedcore.typing import Array


class SignConfig(EveryValueConfig):
    """The sign of every value, times a scale of its tensor or of the whole vector."""

    format: ClassVar[str] = "sign"
    per: Literal["tensor", "vector"] = "tensor"
    """One scale for each tensor, or one for all."""

    @staticmethod
    @abstractmethod
    def scale(rows: Array) -> Array:
        """Returns the scales (...) of parts of one size, rows of shape (..., size)."""

    def message(self, delta_D: Array, key: Keys, layout: Layout) -> Payload:
        """Returns the message of the signs and the scales."""
        return encode_signs(delta_D, key, self.parts(layout), self.scale)

    def parts(self, layout: Layout) -> Layout:
        """Returns the sizes of the parts that have a scale each."""
        return layout if self.per == "tensor" else (sum(layout),)


def encode_signs(
    delta_D: Array, key: Keys, parts: Layout, scale: Callable[[Array], Array]
) -> Payload:
    """Returns the message of signs and scales; a zero is plus or minus at random.

    Args:
        delta_D: the values, shape (..., D).
        key: of the random signs.
        parts: the sizes of the parts that have a scale each.
        scale: returns the scales (...) of parts of one size, (..., size).
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
