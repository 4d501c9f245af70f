"""Rotation: a random rotation before a quantiser, and back after it.

Suresh, Yu, Kumar, McMahan, "Distributed Mean Estimation with Limited
Communication", ICML 2017, §3: with signs D from a seed and the Hadamard matrix H,
R = HD/√d makes the coordinates of any vector alike, so that a step, or a single
scale, fits them all. With one bit a value: Vargaftik et al., "DRIVE: One-bit
Distributed Mean Estimation", NeurIPS 2021, arXiv 2105.08339, Algorithm 1, and
"EDEN", ICML 2022, arXiv 2108.08842, whose scales are ‖Rx‖₁/d, the least error
(1 - 2/π, or 0.363, of the norm's square is lost), and ‖x‖₂²/‖Rx‖₁, without bias.

We depart from the papers in the size of the rotation: blocks of up to 4096 values
are rotated on their own (:mod:`fedcore.payloads.rotated`), with a scale each. And
the second scale is free of bias for rotations drawn from all rotations only. With
signs and H a small bias is left, the larger the more few values dominate a block: 1 %
of the norm of a Gaussian vector of 256, 2 % of Student's t of 3 degrees, and all of
what lies beside one huge value. So it obeys neither law.
"""

from typing import Literal

from pydantic import model_validator

from fedcore.arrays import array_namespace
from fedcore.compressors._sign import encode_signs
from fedcore.compressors.base import (
    AnyCompressor,
    Class,
    Compressor,
    CompressorConfig,
    Keys,
    fold_in,
    formats_inside,
    stateless,
)
from fedcore.compressors.sign_l1 import SignL1
from fedcore.kernels import absolute_sums, square_sums
from fedcore.payloads import Declared, Layout, Payload, rotated_payload
from fedcore.payloads.rotated import INNER, blocks, rotate
from fedcore.rng import seeds
from fedcore.typing import Array


class Rotation(CompressorConfig):
    """A quantiser of the randomly rotated vector."""

    kind: Literal["rotation"] = "rotation"
    inner: AnyCompressor = SignL1()
    """The quantiser: sign_l1, uniform, qsgd or natural."""
    scale: Literal["inner", "unbiased"] = "inner"
    """``inner``: the scale of the inner compressor, with the least error for sign_l1.
    ``unbiased``, for sign_l1 only: ‖x‖₂²/‖Rx‖₁, so that the mean of many messages is
    nearly right."""

    @property
    def bias(self) -> Class:
        """The class of the inner compressor, since a rotation keeps norms and means."""
        return self.inner.bias if self.scale == "inner" else "neither"

    @model_validator(mode="after")
    def _inner_is_a_quantiser(self) -> "Rotation":
        kind = self.inner.kind
        if not formats_inside(self.inner, self.kind) <= INNER.names:
            raise ValueError(
                f"{kind} gains nothing from a rotation; choose a quantiser (sign_l1, "
                "uniform, qsgd or natural)"
            )
        if self.scale == "unbiased" and not isinstance(self.inner, SignL1):
            raise ValueError(
                f"scale: unbiased is for sign_l1 inside rotation; {kind} has scales of "
                "its own"
            )
        return self

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format, and the inner ones for the padded rotation."""
        return {"rotated": sum(layout), **self.inner.list_formats(blocks(sum(layout)))}

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout."""
        parts = blocks(sum(layout))
        inner = self.inner.build(parts)
        if self.scale == "unbiased" and isinstance(self.inner, SignL1):
            scaled = self.inner.parts(parts)
            inner = stateless(lambda y, key: encode_signs(y, key, scaled, _scales_of))
        return stateless(lambda delta_D, key: _encode(delta_D, key, inner))


def _encode(delta_D: Array, key: Keys, inner: Compressor) -> Payload:
    seed = seeds(key)
    own = fold_in(key, "inner")  # the rotation has drawn its signs from the key itself
    message, _ = inner.encode(rotate(delta_D, seed), None, own)
    return rotated_payload(delta_D.shape[-1], seed, message)


def _scales_of(rows: Array) -> Array:
    """Returns ‖y‖₂²/‖y‖₁, and 0 of zeros."""
    xp, sums = array_namespace(rows), absolute_sums(rows)
    safe = xp.where(sums > 0, sums, xp.ones_like(sums))
    return xp.astype(square_sums(rows) / safe, rows.dtype)
