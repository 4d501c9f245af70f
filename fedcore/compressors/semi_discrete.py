"""Semi-discrete decomposition: a matrix as weighted products of -1, 0 and 1.

O'Leary and Peleg, "Digital image compression by outer product expansion", IEEE
Transactions on Communications 31(3), 1983; Kolda and O'Leary, "A semidiscrete matrix
decomposition for latent semantic indexing in information retrieval", ACM Transactions
on Information Systems 16(4), 1998, Figure 1. Each term takes the product w·x·yᵀ from
the rest of the matrix, R, where x and y consist of -1, 0 and 1 and lower ‖R‖ most. For
given y, the best x has the signs of the j largest magnitudes of Ry, where j maximises
(their sum)²/j. The best y for given x is found likewise, in turns. Then w is the mean
xᵀRy/(‖x‖²‖y‖²). An update of a layer is nearly of low rank, and such a term takes about
1.5 bits for each row and column, where one of PowerSGD takes 32.

We depart from the paper as follows. A term starts with two power iterations from the
longest row. Weights are rounded to four significant bits. Tensors share one budget: the
next term is the one that lowers ‖R‖² most for each of its bytes. A vector has one row,
and so its terms are sparse signs.

It is a contraction: of the j largest of n magnitudes one choice has (their sum)²/j ≥
‖Ry‖²/(1 + ln n), so a term takes at least ‖R‖²/(m(1 + ln m)(1 + ln n)) from its tensor,
short of the rounding of w, which leaves 99 % of that, and of values below 2^-123.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field

from fedcore.arrays import as_numpy, finite_products, like
from fedcore.compressors._matrix import Shape, matrices, squarest
from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    Keys,
    stateless,
)
from fedcore.params import ParamSpec
from fedcore.payloads import (
    Declared,
    Layout,
    Payload,
    Term,
    semi_discrete_payload,
    stack_terms,
)
from fedcore.payloads.semi_discrete import LEAST_STEP, MANTISSA, MOST_CODE, MOST_TERMS
from fedcore.typing import Array

_HEAD = 12  # bytes of a message beside its terms
_TERM = 2  # bytes of a term beside its factors
_BITS = 4  # of a weight's mantissa
_START = 2  # power iterations
_NOTHING = 2.0**-31  # of the largest value; weights go no further down
_GAPS = 1.05  # their code, against the entropy of where the numbers are


class SemiDiscrete(CompressorConfig):
    """Matrices as sums of weighted products of signs and zeros."""

    kind: Literal["semi_discrete"] = "semi_discrete"
    bits: float = Field(default=0.2, gt=0, le=2)
    """About what a message takes for each value of the model; one term at least."""
    iterations: int = Field(default=3, ge=1, le=32)
    """How often the column and the row of a term are fitted to each other in turns."""

    @property
    def bias(self) -> Class:
        """Each term lowers the rest of the matrix; see above for δ."""
        return "contraction"

    @property
    def adds_exactly(self) -> bool:
        """Whole multiples of powers of two do."""
        return True

    def shorter(self, share: float) -> Self | None:
        """Returns these settings with fewer terms."""
        return self.model_copy(update={"bits": self.bits * share})

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format; decoding passes over each term's matrix."""
        return self._list_formats([squarest(size) for size in layout])

    def list_formats_for(self, spec: ParamSpec) -> Declared:
        """Returns the declared formats for the shapes of the tensors."""
        return self._list_formats(matrices(spec))

    def _list_formats(self, shapes: Sequence[Shape]) -> Declared:
        """Factors have no more numbers than there are values in the model and terms."""
        dim = sum(math.prod(shape) for shape in shapes)
        most = 0
        for shape in shapes:
            size = math.prod(shape)
            most = max(most, size, -(-dim * size // max(1, sum(shape) - 1)))
        return {"semi_discrete": most}

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout, with tensors as square as can be."""
        return self._build([squarest(size) for size in layout])

    def build_for(self, spec: ParamSpec) -> Compressor:
        """Returns the compressor for this model."""
        return self._build(matrices(spec))

    def _build(self, shapes: Sequence[Shape]) -> Compressor:
        def encode(delta_D: Array, _: Keys) -> Payload:
            if delta_D.ndim == 1:
                return self._encode(delta_D, shapes)
            return stack_terms([self._encode(row_D, shapes) for row_D in delta_D])

        return stateless(encode)

    def _encode(self, delta_D: Array, shapes: Sequence[Shape]) -> Payload:
        budget = self.bits / 8 * delta_D.shape[-1] - _HEAD
        terms = _decompose(as_numpy(delta_D), shapes, budget, self.iterations)
        layout = tuple(rows * columns for rows, columns in shapes)
        payload = semi_discrete_payload(layout, *_encode_terms(terms))
        arrays = {name: like(a, delta_D) for name, a in payload.arrays.items()}
        return Payload(payload.format, payload.dim, arrays)


class _Weighted(NamedTuple):
    """A term of weight mantissa · 2^exponent, and what it is good for."""

    tensor: int
    mantissa: int  # from 8 to 15
    exponent: int
    x_M: Any
    y_N: Any
    gain: float  # by which ‖R‖² falls
    nbytes: float  # about what it takes


def _nbytes(x_M: Any, y_N: Any) -> float:
    """Returns the places and the signs of the factors' numbers that are not zero."""
    n, k = len(x_M) + len(y_N), np.count_nonzero(x_M) + np.count_nonzero(y_N)
    bitmap, gaps = n, _GAPS * n * _entropy(k / n)
    return (min(bitmap, gaps) + k) / 8 + _TERM


def _entropy(share: float) -> float:
    return -sum(p * math.log2(p) for p in (share, 1 - share) if p)


def _decompose(
    delta_D: Any, shapes: Sequence[Shape], budget: float, iterations: int
) -> list[_Weighted]:
    """Returns as many terms as the budget of bytes has, rounded, and at least one.

    A vector that is not finite has no terms: the memory keeps it, and shows it.
    """
    largest = np.abs(delta_D).max(initial=0.0)
    if not np.isfinite(largest):
        return []
    _, scale = np.frexp(largest)
    unit_D = np.ldexp(delta_D, -scale)  # squares stay within float32
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    rests = [
        part_D.reshape(shape)
        for part_D, shape in zip(np.split(unit_D, ends[:-1]), shapes, strict=True)
    ]
    following = [_next(n, rest_MN, iterations) for n, rest_MN in enumerate(rests)]
    terms: list[_Weighted] = []
    numbers = len(delta_D)  # no more do factors have, less one for each term
    while candidates := [term for term in following if term is not None]:
        term = max(candidates, key=lambda term: term.gain / term.nbytes)
        budget -= term.nbytes
        numbers -= len(term.x_M) + len(term.y_N) - 1
        is_enough = budget < -term.nbytes / 2 or numbers < 0
        if terms and (is_enough or len(terms) == MOST_TERMS):
            break
        terms.append(term._replace(exponent=term.exponent + int(scale)))
        rest_MN = rests[term.tensor]
        weight = np.float32(math.ldexp(term.mantissa, term.exponent))
        speaks_K = np.flatnonzero(term.x_M)
        rest_MN[speaks_K] -= np.outer(weight * term.x_M[speaks_K], term.y_N)
        following[term.tensor] = _next(term.tensor, rest_MN, iterations)
    return terms


@finite_products
def _next(tensor: int, rest_MN: Any, iterations: int) -> _Weighted | None:
    """Returns the term that lowers the rest most; None if little is left."""
    if np.abs(rest_MN).max(initial=0.0) < _NOTHING:
        return None
    y_N = rest_MN[np.argmax(np.square(rest_MN).sum(axis=1))]
    for _ in range(_START):
        y_N = (rest_MN @ y_N) @ rest_MN
        y_N = y_N / np.abs(y_N).max()
    for _ in range(iterations):
        x_M = _fit(rest_MN @ y_N)
        y_N = _fit(x_M @ rest_MN)
    product = float(x_M @ (rest_MN @ y_N))
    size = float(x_M @ x_M) * float(y_N @ y_N)
    fraction, exponent = math.frexp(product / size)
    mantissa = round(fraction * 2 * MANTISSA)
    if mantissa == 2 * MANTISSA:
        mantissa, exponent = MANTISSA, exponent + 1
    exponent -= _BITS
    weight = math.ldexp(mantissa, exponent)
    gain = weight * (2 * product - weight * size)
    return _Weighted(tensor, mantissa, exponent, x_M, y_N, gain, _nbytes(x_M, y_N))


def _fit(products: Any) -> Any:
    """Returns the numbers -1, 0 and 1 that a vector is closest to in direction."""
    magnitudes = np.abs(products)
    order = np.argsort(-magnitudes, kind="stable")
    sums = np.cumsum(magnitudes[order], dtype=np.float64)
    count = int(np.argmax(np.square(sums) / np.arange(1, len(sums) + 1))) + 1
    numbers = np.zeros_like(products)
    numbers[order[:count]] = np.sign(products[order[:count]])
    return numbers


def _encode_terms(terms: Sequence[_Weighted]) -> tuple[list[Term], int]:
    """Returns the terms as they travel, and the exponent of the step.

    A weight below 2^-31 times the largest, or below 2^-123, says nothing.
    """
    if not terms:
        return [], 0
    exponents = [term.exponent for term in terms]
    step = max(min(exponents), max(exponents) - MOST_CODE // MANTISSA, LEAST_STEP)
    coded = [
        Term(
            term.tensor,
            MANTISSA * (term.exponent - step) + term.mantissa - MANTISSA,
            term.x_M,
            term.y_N,
        )
        for term in sorted(terms, key=lambda term: term.tensor)
        if term.exponent >= step
    ]
    return coded, step
