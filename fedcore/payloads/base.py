"""What a payload is, and the contract of its formats.

A payload is what really travels: an encoder yields the arrays, ``pack`` lays
them out as bytes, ``nbytes`` counts these bytes. On the wire a payload starts
with six bytes: the version of this layout, the format's code, and the number
of values it stands for (32 bits, little endian, as everything else). Version 1 is
followed by the format's body. Version 2 has the same body deflated: ``u8 stride, u32
size``, and the bytes of :mod:`fedcore.payloads.deflate`; it is taken where it is
smaller, and only for a message that travels by itself, not for one inside another.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import PayloadError
from fedcore.payloads.deflate import deflated, inflated
from fedcore.typing import Array, Bytes, Indices, Vector

VERSION, DEFLATED = 1, 2
_HEADER = struct.Struct("<BBI")
_DEFLATED = struct.Struct("<BI")
_STRIDES = (1, 2, 4)

Exact = tuple[Any, npt.NDArray[np.float64]]  # places, and the values there
Layout = tuple[int, ...]  # values per tensor; the formats' decoders are told it
# The formats that are taken, and of each how many values decoding may pass over.
Declared = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Payload:
    """One message about a vector of ``dim`` values: a format and its arrays.

    Arrays may have leading axes, one message a row; :meth:`rows` parts them.
    """

    format: str
    dim: int
    arrays: Mapping[str, Array]
    deflates: bool = True  # where that makes it smaller

    @property
    def nbytes(self) -> int:
        """How many bytes :func:`pack` yields."""
        return sum(memoryview(part).nbytes for part in pack_parts(self))


class Format(NamedTuple):
    """How one kind of message is laid out, and what it means."""

    name: str
    code: int  # the byte that names it on the wire, for ever
    pack: Callable[[Payload], list[Bytes]]
    unpack: Callable[["Reader", Layout], dict[str, Array]]
    decode: Callable[[Payload], Array]
    # out += scale * decode(payload), in place, in the order of single additions
    add: Callable[[Payload, Vector, np.float32], None]
    # the coordinates that it may change, ascending; None says: all of them
    support: Callable[[Payload], Indices | None]
    # what the largest magnitude in its arrays is to be multiplied with
    multiple: Callable[[Payload], float] | None = None
    # the bound on the magnitude, where it is no such product
    magnitude: Callable[[Payload], float] | None = None
    # bytes of the numbers that it is mostly made of: 1, 2 or 4; None: never deflated
    stride: int | None = 1
    # where messages may add up without rounding: the places and values of one, in
    # double precision; one that is the sum of many, or None if it would be rounded;
    # and, where a sum becomes smaller by it, one that takes a message back
    exact: Callable[[Payload], Exact] | None = None
    merge: Callable[[Sequence[Payload]], Payload | None] | None = None
    negative: Callable[[Payload], Payload] | None = None
    # the same message, such that adding it costs a pass over what it changes at most
    prepared: Callable[[Payload], Payload] | None = None


_by_name: dict[str, Format] = {}
_by_code: dict[int, Format] = {}


def register(form: Format) -> Format:
    """Makes a format known to :func:`unpack`."""
    if form.code in _by_code:
        raise ValueError(f"code {form.code} is taken by {_by_code[form.code].name!r}")
    _by_name[form.name] = _by_code[form.code] = form
    return form


def formats() -> tuple[Format, ...]:
    """All registered formats."""
    return tuple(_by_name.values())


def pack_parts(payload: Payload) -> list[Bytes]:
    """The bytes that travel, in pieces; large arrays are not copied."""
    head, *body = pack_plain(payload)
    form = _by_name[payload.format]
    if not payload.deflates or form.stride is None:
        return [head, *body]
    size = sum(memoryview(part).nbytes for part in body)
    small = deflated(body, form.stride) if size <= _most(payload.dim) else None
    if small is None or _DEFLATED.size + len(small) >= size:
        return [head, *body]
    about = _DEFLATED.pack(form.stride, size)
    return [_HEADER.pack(DEFLATED, form.code, payload.dim), about, small]


def pack_plain(payload: Payload) -> list[Bytes]:
    """The same, and never deflated, for a message inside another."""
    form = _by_name[payload.format]
    return [_HEADER.pack(VERSION, form.code, payload.dim), *form.pack(payload)]


def _most(dim: int) -> int:
    """Bytes of a body that may be deflated: what all values would take, and more."""
    return min(4 * dim + 1024, (1 << 32) - 1)


def pack(payload: Payload) -> bytes:
    """The bytes that travel."""
    return b"".join(pack_parts(payload))


def unpack(data: Bytes, layout: Layout, declared: Declared | None = None) -> Payload:
    """Reads a peer's bytes, for a model whose tensors have these sizes.

    With ``declared`` other formats are refused, and so is a message that would cost
    more than is declared, before that is paid.

    Raises:
        PayloadError: the bytes do not describe such a vector. What was allocated
            by then is bounded by the message and the model, whatever it claims.
    """
    return _unpack(data, layout, (VERSION, DEFLATED), declared)


def unpack_plain(data: Bytes, layout: Layout, declared: Declared | None) -> Payload:
    """The same for a message inside another, which is not deflated by itself."""
    return _unpack(data, layout, (VERSION,), declared)


def _unpack(
    data: Bytes,
    layout: Layout,
    versions: tuple[int, ...],
    declared: Declared | None,
) -> Payload:
    reader = Reader(data)
    version, code, dim = _HEADER.unpack(reader.bytes(_HEADER.size))
    if version not in versions:
        known = " or ".join(map(str, versions))
        raise PayloadError(f"unknown payload version {version}, expected {known}")
    if code not in _by_code:
        known = ", ".join(f"{form.code} {form.name}" for form in formats())
        raise PayloadError(f"unknown payload format {code}; known: {known}")
    expected = sum(layout)
    if dim != expected:
        raise PayloadError(f"expected {expected} values, got {dim}")
    form = _by_code[code]
    if declared is not None and form.name not in declared:
        raise PayloadError(
            f"a message of format {form.name!r}, expected {' or '.join(declared)}"
        )
    if version == DEFLATED:
        most = _most(dim)
        if declared is not None:
            most = min(most, _most_about(declared[form.name], layout))
        reader = _inflated(reader, dim, most)
    reader.declared = declared
    reader.steps = None if declared is None else declared[form.name]
    arrays = form.unpack(reader, layout)
    reader.end()
    return Payload(form.name, dim, arrays, deflates=version == DEFLATED)


def _most_about(values: int, layout: Layout) -> int:
    """Bytes of a body that says something about so many values."""
    return 16 * (values + len(layout)) + 1024


def _inflated(reader: "Reader", dim: int, most: int) -> "Reader":
    """A reader of the body that was deflated."""
    stride, size = _DEFLATED.unpack(reader.bytes(_DEFLATED.size))
    if stride not in _STRIDES:
        raise PayloadError(f"unknown stride {stride}, expected one of {_STRIDES}")
    if size > most:
        raise PayloadError(
            f"{size} bytes deflated, expected at most {most} about {dim} values"
        )
    return Reader(inflated(reader.bytes(reader.left), size, stride))


def format_of(data: Bytes) -> str:
    """The format that a message says it has; empty if there is none of its code."""
    form = _by_code.get(memoryview(data)[1]) if len(data) > 1 else None
    return form.name if form else ""


def decode(payload: Payload) -> Array:
    """The float32 vector that the message stands for, shape ``(..., D)``."""
    return _by_name[payload.format].decode(payload)


def add(payload: Payload, out_D: Vector, scale: float = 1.0) -> None:
    """``out += scale * decode(payload)`` in place, at the cost of the message."""
    _by_name[payload.format].add(payload, out_D, np.float32(scale))


def support(payload: Payload) -> Indices | None:
    """The coordinates that it may change, ascending, or None for all."""
    return _by_name[payload.format].support(payload)


def magnitude(payload: Payload) -> float:
    """The largest magnitude of the update, or NaN if it holds one."""
    own = _by_name[payload.format].magnitude
    if own is not None:
        return own(payload)
    extremes = [
        float(bound(array))
        for array in payload.arrays.values()
        if np.issubdtype(array.dtype, np.floating) and array.size
        for bound in (np.max, np.min)
    ]
    multiple = _by_name[payload.format].multiple
    largest = float(np.max(np.abs(extremes))) if extremes else 0.0
    return largest * (multiple(payload) if multiple else 1.0)


def prepared(payload: Payload) -> Payload:
    """The same message, such that adding it costs little: to the same bits."""
    own = _by_name[payload.format].prepared
    return own(payload) if own else payload


def exact(message: Payload) -> Exact | None:
    """Places and values, in double precision; None if they never add up exactly."""
    own = _by_name[message.format].exact
    return own(message) if own else None


def merged(messages: Sequence[Payload]) -> Payload | None:
    """One message that is the exact sum of these, or None if there is none."""
    names = {message.format for message in messages}
    own = _by_name[names.pop()].merge if len(names) == 1 else None
    return own(messages) if own else None


def cancels(message: Payload) -> bool:
    """Whether a sum becomes smaller by taking this message away from it again."""
    return _by_name[message.format].negative is not None


def negative(message: Payload) -> Payload:
    """The message that takes this one back, if it cancels."""
    own = _by_name[message.format].negative
    assert own is not None
    return own(message)


def rows(payload: Payload) -> list[Payload]:
    """The single messages of a stack."""
    first = next(iter(payload.arrays.values()))
    return [
        replace(payload, arrays={k: a[i] for k, a in payload.arrays.items()})
        for i in range(first.shape[0])
    ]


class Reader:
    """Reads a message front to back; running out of bytes is a PayloadError."""

    __slots__ = ("_at", "_data", "declared", "steps")

    def __init__(self, data: Bytes) -> None:
        self._data = memoryview(data).cast("B")
        self._at = 0
        self.declared: Declared | None = None  # for messages inside this one
        self.steps: int | None = None  # values that this one may pass over; None: any

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._at

    def spend(self, steps: int) -> None:
        """Declares how many values decoding passes over, before it does.

        Raises:
            PayloadError: a message of this federation never does so many.
        """
        if self.steps is not None and steps > self.steps:
            raise PayloadError(
                f"a message that takes {steps} steps, expected at most {self.steps}"
            )

    def bytes(self, count: int) -> memoryview:
        """The next ``count`` bytes, not copied."""
        if count > self.left:
            raise PayloadError(
                f"message ends early: {count} bytes expected, {self.left} left"
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def peek(self, count: int) -> memoryview:
        """Up to ``count`` of the next bytes, which stay to be read."""
        return self._data[self._at : self._at + count]

    def number(self, form: str) -> Any:
        """One number of a struct format such as ``"I"``."""
        one = struct.Struct("<" + form)
        return one.unpack(self.bytes(one.size))[0]

    def array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """The next ``count`` numbers as a read-only array over the message."""
        kind = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self.bytes(kind.itemsize * count), kind)

    def end(self) -> None:
        """Raises PayloadError unless everything was read."""
        if self.left:
            raise PayloadError(f"{self.left} bytes too many at the end of the message")


def little(array: Array, dtype: str) -> memoryview:
    """An array's values as little-endian bytes; a copy only where needed."""
    kind = np.dtype(dtype).newbyteorder("<")
    return np.ascontiguousarray(array, kind).data.cast("B")
