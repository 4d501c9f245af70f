"""Low-rank compression: each matrix of the model as a product of two thin ones.

Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
Distributed Optimization", NeurIPS 2019, arXiv 1905.13727, Algorithm 1: P = MQ, made
orthonormal, and Q = MᵀP; the message stands for PQᵀ. A tensor of more than two axes is
a matrix of its first axis and all others; vectors, and matrices that two thin ones
would not make smaller, travel exactly.

PowerSGD starts from the Q of the step before, its warm start. Here that Q is the one in
the sender's last message that was decided on: a client keeps it, and the server finds
it in its ring of versions. Without such a message, as in the first, or with
``ring_bytes: 0``, the start is random. We depart from the paper in that P and Q are not
averaged over clients, since messages arrive one by one.

PQᵀ = PPᵀM is a projection of M, and so a contraction. The weight that a random start
gives to a singular direction grows with its singular value, so δ ≥ 1/min(m, n). A warm
start alone could be orthogonal to M, and would then find nothing, for ever: a tenth of
random numbers is added to it.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fedcore.arrays import array_namespace, as_numpy, finite_products, like
from fedcore.compressors._matrix import matrices, squarest
from fedcore.compressors._parts import EXACT, by_parts
from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    Context,
    Keys,
    stateless,
)
from fedcore.params import ParamSpec
from fedcore.payloads import Declared, Layout, Payload, low_rank_payload
from fedcore.payloads.low_rank import MOST_RANK
from fedcore.rng import Key
from fedcore.typing import Array

_RANDOM = 0.1  # of the length of a warm start
_NOISE = 1e-5  # what is left of a column that depends on the others, in float32


class LowRank(CompressorConfig):
    """Matrices as products of rank r; all other tensors exactly."""

    kind: Literal["low_rank"] = "low_rank"
    rank: int = Field(default=2, ge=1, le=MOST_RANK)
    """A matrix of m rows and n columns takes rank·(m + n) values."""
    iterations: int = Field(default=2, ge=1, le=32)
    """Power iterations; more come closer to the best matrix."""
    warm_start: bool = True
    """Begin with what the sender's last message found, and not at random."""

    @property
    def bias(self) -> Class:
        """A projection; δ ≥ 1/min(m, n) of the squarest matrix."""
        return "contraction"

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format; decoding passes over each matrix once a rank."""
        return self._list_formats([squarest(size) for size in layout])

    def list_formats_for(self, spec: ParamSpec) -> Declared:
        """Returns the declared formats for the shapes of the tensors."""
        return self._list_formats(matrices(spec))

    def _list_formats(self, shapes: Sequence[tuple[int, int]]) -> Declared:
        exact = sum(math.prod(s) for s in shapes if not self._shortens(s))
        thin = [math.prod(s) for s in shapes if self._shortens(s)]
        ranks = {"low_rank": self.rank * max(thin)} if thin else {}
        return {"parts": len(shapes), "dense": exact, **ranks}

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout, with tensors as square as can be."""
        return self._build([squarest(size) for size in layout])

    def build_for(self, spec: ParamSpec) -> Compressor:
        """Returns the compressor for this model."""
        return self._build(matrices(spec))

    def _build(self, shapes: Sequence[tuple[int, int]]) -> Compressor:
        sizes = tuple(rows * columns for rows, columns in shapes)
        if len(shapes) == 1:
            return self._of_matrix(shapes[0]) if self._shortens(shapes[0]) else EXACT
        exact, parts = [], []
        for number, shape in enumerate(shapes):
            if self._shortens(shape):
                parts.append(([number], self._of_matrix(shape)))
            elif sizes[number]:
                exact.append(number)
        return by_parts(sizes, [(exact, EXACT), *parts] if exact else parts)

    def _shortens(self, shape: tuple[int, int]) -> bool:
        return self.rank * sum(shape) < math.prod(shape)

    def _of_matrix(
        self, shape: tuple[int, int], before: Array | None = None
    ) -> Compressor:
        def adapt(context: Context) -> Compressor:
            found = context.recalled
            fits = isinstance(found, np.ndarray) and found.shape[1:] == shape[1:]
            return self._of_matrix(shape, found if fits else None)

        return stateless(
            lambda delta_D, key: _encode(delta_D, key, shape, self, before),
            *((adapt, _read_q) if self.warm_start else ()),
        )


def _read_q(message: Payload) -> Array | None:
    """Returns Q of a message, a row for each rank; None of another kind of message."""
    if message.format != "low_rank":
        return None
    return np.array(as_numpy(message.arrays["q"]))


def _encode(
    delta_D: Array,
    key: Keys,
    shape: tuple[int, int],
    config: LowRank,
    before: Array | None,
) -> Payload:
    if isinstance(key, Key):
        return low_rank_payload(*_factors(delta_D.reshape(shape), key, config, before))
    xp = array_namespace(delta_D)
    pairs = [
        _factors(row_D.reshape(shape), own, config, before)
        for row_D, own in zip(delta_D, key, strict=True)
    ]
    p_NRM, q_NRN = (xp.stack(list(part)) for part in zip(*pairs, strict=True))
    return low_rank_payload(p_NRM, q_NRN)


@finite_products
def _factors(
    m_MN: Array, key: Key, config: LowRank, before_RN: Array | None
) -> tuple[Array, Array]:
    """Returns P and Q, a row for each rank."""
    xp = array_namespace(m_MN)
    largest = xp.max(xp.abs(m_MN))
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))
    m_MN = m_MN / scale  # products and squares stay within float32
    q_RN = like(_start(key, (config.rank, m_MN.shape[1]), before_RN), m_MN)
    for _ in range(config.iterations):
        p_RM = _orthonormal(q_RN @ m_MN.T)
        q_RN = p_RM @ m_MN
    return p_RM, q_RN * scale


def _start(key: Key, shape: tuple[int, int], before_RN: Array | None) -> Any:
    """Returns random rows, or rows close to those that were found before."""
    start_RN = key.generator().standard_normal(shape)
    if before_RN is not None:
        found_RN = as_numpy(before_RN)[: shape[0]].astype(np.float64)
        lengths = np.linalg.norm(found_RN, axis=-1, keepdims=True)
        warm = np.flatnonzero(lengths)  # a row of zeros found nothing
        start_RN[warm] *= _RANDOM / math.sqrt(shape[1])
        start_RN[warm] += found_RN[warm] / lengths[warm]
    return start_RN.astype(np.float32)


def _orthonormal(x_RM: Array) -> Array:
    """Makes rows orthonormal by Gram-Schmidt, twice; dependent rows become zeros.

    Without a limit its noise would be made as long as the others, and may well lie
    along them: what they stand for would be sent twice.
    """
    xp = array_namespace(x_RM)
    wide_RM = xp.astype(x_RM, xp.float64)
    basis_RM = xp.zeros_like(wide_RM)
    for place in range(wide_RM.shape[0]):
        rest_M, above = wide_RM[place], basis_RM[:place]
        for _ in range(2):
            rest_M = rest_M - (above @ rest_M) @ above
        length = float(xp.sum(rest_M * rest_M)) ** 0.5
        if length > _NOISE * float(xp.sum(wide_RM[place] ** 2)) ** 0.5:
            basis_RM[place] = rest_M / length
    return xp.astype(basis_RM, x_RM.dtype)
