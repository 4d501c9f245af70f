"""Matrices as sums of a few weighted outer products of numbers -1, 0 and 1.

==== ====== ==============================================================
at   size   content
==== ====== ==============================================================
0    1      E, from -126 to 127, as i8; the step s is 2^E
1           T, the number of terms, at most 65,536
…           for each term the number of its tensor, less that of the term
            before it, or less 0
…           for each tensor that has a term, the rows of its matrix; they
            divide its size
…    T      for each term its weight, as u8: 8·e + m
…           k, how many numbers of the factors are not zero
…           their places, as indices below the number of all factors'
            numbers (:mod:`fedcore.payloads.indices`)
…    ⌈k/8⌉  their signs; a set bit says plus, the lowest first
==== ====== ==============================================================

Numbers without a size are :mod:`varints <fedcore.payloads.varint>`. The matrix of a
tensor, row after row, is the sum of its terms, w·x·yᵀ, where x has a number for each
row and y one for each column, and w = (8 + m)·2^e·s, with e up to 31 and m up to 7. The
factors follow each other: x and y of the first term, x and y of the second, and so on.
Altogether they have no more numbers than there are values in the model and terms.

Both sides must find the same bits. Sums of (8 + m)·2^e are whole numbers that float64
holds exactly, in whatever order they are added; times s, each is rounded once.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.arrays import as_numpy, finite_products, like
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, register
from fedcore.payloads.dense import dense_payload
from fedcore.payloads.indices import pack_indices, unpack_indices
from fedcore.payloads.meaning import rows
from fedcore.payloads.varint import pack_varints, unpack_varints
from fedcore.typing import Array, Bytes, Vector

MANTISSA = 8  # of weights, from here to twice as much
MOST_CODE = 255
LEAST_STEP = -126  # 2^-126 is the smallest number of full precision
MOST_TERMS = 1 << 16  # so that all sums stay below 2^53
Numbers = npt.NDArray[Any]


class Term(NamedTuple):
    """An outer product, and the code of its weight."""

    tensor: int
    code: int
    x_M: Numbers
    y_N: Numbers

    @property
    def numbers(self) -> int:
        """The numbers of both factors."""
        return len(self.x_M) + len(self.y_N)


def weight(code: Any) -> Any:
    """Returns (8 + m)·2^e, a whole number."""
    exponent, mantissa = np.divmod(np.asarray(code, np.int64), MANTISSA)
    return (MANTISSA + mantissa) << exponent


def semi_discrete_payload(layout: Layout, terms: Sequence[Term], step: int) -> Payload:
    """Returns the message of these terms, whose tensors ascend; ``step`` is E."""
    factors = [part for term in terms for part in (term.x_M, term.y_N)]
    arrays: dict[str, Array] = {
        "step": np.array([step], np.int8),
        "tensors": np.array([term.tensor for term in terms], np.int64),
        "rows": np.array([len(term.x_M) for term in terms], np.int64),
        "codes": np.array([term.code for term in terms], np.uint8),
        "factors": np.concatenate([np.zeros(0), *factors]).astype(np.int8),
        "sizes": np.asarray(layout, np.int64),
    }
    return Payload("semi_discrete", sum(layout), arrays)


def stack_terms(messages: Sequence[Payload]) -> Payload:
    """Returns a stack of messages; zeros fill up those with fewer terms."""
    arrays: dict[str, Array] = {}
    for name, first in messages[0].arrays.items():
        parts = [as_numpy(message.arrays[name]) for message in messages]
        filled = np.zeros((len(parts), max(map(len, parts))), parts[0].dtype)
        for row, part in zip(filled, parts, strict=True):
            row[: len(part)] = part
        arrays[name] = like(filled, first)
    return Payload(messages[0].format, messages[0].dim, arrays)


class _Group(NamedTuple):
    """The terms of a tensor."""

    tensor: int
    codes_T: Numbers
    x_TM: Numbers
    y_TN: Numbers


def _groups(payload: Payload) -> Iterator[_Group]:
    """Yields the terms of one message, tensor by tensor."""
    arrays = {name: as_numpy(array) for name, array in payload.arrays.items()}
    speaks = arrays["rows"] > 0  # zeros fill up a row of a stack
    tensors, firsts, counts = np.unique(
        arrays["tensors"][speaks], return_index=True, return_counts=True
    )
    at = 0
    for tensor, first, count in zip(
        tensors.tolist(), firsts.tolist(), counts.tolist(), strict=True
    ):
        rows = int(arrays["rows"][first])
        width = rows + int(arrays["sizes"][tensor]) // rows
        both = arrays["factors"][at : at + count * width].reshape(count, width)
        codes_T = arrays["codes"][first : first + count]
        yield _Group(tensor, codes_T, both[:, :rows], both[:, rows:])
        at += count * width


def _merge(messages: Sequence[Payload]) -> Payload | None:
    """Joins the terms in one message; None if its values would be rounded."""
    messages = [message for message in messages if message.arrays["codes"].size]
    if not messages:
        return None
    steps = [int(message.arrays["step"][0]) for message in messages]
    if sum(len(message.arrays["codes"]) for message in messages) > MOST_TERMS:
        return None
    terms = [
        term._replace(code=term.code + MANTISSA * (step - min(steps)))
        for message, step in zip(messages, steps, strict=True)
        for term in _terms(message)
    ]
    rows_of = {(term.tensor, len(term.x_M)) for term in terms}
    numbers = sum(term.numbers for term in terms)
    if (
        max(term.code for term in terms) > MOST_CODE
        or len({tensor for tensor, _ in rows_of}) < len(rows_of)
        or numbers > messages[0].dim + len(terms)
    ):
        return None
    layout = tuple(messages[0].arrays["sizes"].tolist())
    terms.sort(key=lambda term: term.tensor)
    total = semi_discrete_payload(layout, terms, min(steps))
    exact_D = _whole(total)
    return total if (exact_D.astype(np.float32) == exact_D).all() else None


def _terms(payload: Payload) -> Iterator[Term]:
    for group in _groups(payload):
        for code, x_M, y_N in zip(*group[1:], strict=True):
            yield Term(group.tensor, int(code), x_M, y_N)


@finite_products
def _whole(payload: Payload) -> npt.NDArray[np.float64]:
    """Returns the values of one message before they are rounded."""
    step = int(payload.arrays["step"][0])
    ends = np.cumsum(as_numpy(payload.arrays["sizes"]))
    values_D = np.zeros(payload.dim, np.float64)
    for tensor, codes_T, x_TM, y_TN in _groups(payload):
        weights_T = np.ldexp(weight(codes_T), step)
        matrix_MN = x_TM.T.astype(np.float64) @ (y_TN * weights_T[:, None])
        values_D[ends[tensor] - matrix_MN.size : ends[tensor]] = matrix_MN.reshape(-1)
    return values_D


def _pack(payload: Payload) -> list[Bytes]:
    groups = list(_groups(payload))
    tensors = [group.tensor for group in groups for _ in group.codes_T]
    count = sum(group.x_TM.size + group.y_TN.size for group in groups)
    factors = as_numpy(payload.arrays["factors"])[:count]
    places_K = np.flatnonzero(factors)
    return [
        struct.pack("<b", int(payload.arrays["step"][0])),
        pack_varints([len(tensors), *np.diff(tensors, prepend=0).tolist()]),
        pack_varints(group.x_TM.shape[1] for group in groups),
        as_numpy(payload.arrays["codes"])[: len(tensors)].tobytes(),
        pack_varints([len(places_K)]),
        *pack_indices(places_K, count),
        np.packbits(factors[places_K] > 0, bitorder="little").tobytes(),
    ]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    step = reader.array("i1", 1)
    if step[0] < LEAST_STEP:
        raise PayloadError(f"a step of 2^{step[0]}, expected at least 2^{LEAST_STEP}")
    (terms,) = unpack_varints(reader, 1)
    most = min(MOST_TERMS, sum(layout))
    if terms > most:
        raise PayloadError(f"{terms} terms, expected at most {most}")
    tensors, rows_T = _unpack_shapes(reader, terms, layout)
    sizes = np.asarray(layout, np.int64)
    reader.spend(int(sizes[tensors].sum()))
    count = int((rows_T + sizes[tensors] // rows_T).sum())
    if count > sum(layout) + terms:
        raise PayloadError(
            f"factors of {count} numbers in {terms} terms about {sum(layout)} values"
        )
    codes = reader.array("u1", terms)
    (spoken,) = unpack_varints(reader, 1)
    places_K = unpack_indices(reader, spoken, count)
    packed = reader.array("u1", (spoken + 7) // 8)
    factors = np.zeros(count, np.int8)
    factors[places_K] = np.unpackbits(packed, count=spoken, bitorder="little")
    factors[places_K] *= 2
    factors[places_K] -= 1
    return {
        "step": step,
        "tensors": tensors,
        "rows": rows_T,
        "codes": codes,
        "factors": factors,
        "sizes": sizes,
    }


def _unpack_shapes(reader: Reader, terms: int, layout: Layout) -> tuple[Any, Any]:
    """Returns the tensor of each term, and the rows of its matrix."""
    tensors = np.cumsum(unpack_varints(reader, terms), dtype=np.int64)
    if terms and tensors[-1] >= len(layout):
        raise PayloadError(f"a term of tensor {tensors[-1]}, known: {len(layout)}")
    different, which = np.unique(tensors, return_inverse=True)
    rows_of = unpack_varints(reader, len(different))
    for tensor, size in zip(different.tolist(), rows_of, strict=True):
        if not size or not layout[tensor] or layout[tensor] % size:
            raise PayloadError(f"no matrix of {size} rows has {layout[tensor]} values")
    return tensors, np.array(rows_of, np.int64)[which]


def _decode(payload: Payload) -> Array:
    reference = payload.arrays["step"]
    if reference.ndim > 1:
        return like(np.stack([_values(row) for row in rows(payload)]), reference)
    return like(_values(payload), reference)


def _values(payload: Payload) -> Vector:
    return _whole(payload).astype(np.float32)


def _magnitude(payload: Payload) -> float:
    """Bounds the values: all terms of a tensor may meet in one."""
    step = int(payload.arrays["step"][0])
    sums = [
        float(weight(codes_T[x_TM.any(axis=1) & y_TN.any(axis=1)]).sum())
        for _, codes_T, x_TM, y_TN in _groups(payload)
    ]
    return float(np.ldexp(max(sums, default=0.0), step))


SEMI_DISCRETE = register(
    Format(
        "semi_discrete",
        13,
        _pack,
        _unpack,
        _decode,
        magnitude=_magnitude,
        exact=lambda payload: (slice(None), _whole(payload)),
        merge=_merge,
        prepare=lambda payload: dense_payload(_values(payload)),
    )
)
