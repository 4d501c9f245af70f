"""Payloads, and the contract of their formats.

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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import PayloadError
from fedcore.payloads.deflate import deflate, inflate
from fedcore.typing import Array, Bytes, Vector

# ----------- how bytes of a message are read and written: little endian, front to back


# The formats that are taken, and of each how many values decoding may pass over.
Declared = Mapping[str, int]


class Reader:
    """Reads a message from front to back.

    Each method raises PayloadError where the message ends too early.
    """

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
        """Checks a number of values that decoding is about to pass over.

        Raises:
            PayloadError: it is more than messages of this federation ever need.
        """
        if self.steps is not None and steps > self.steps:
            raise PayloadError(
                f"a message that takes {steps} steps, expected at most {self.steps}"
            )

    def bytes(self, count: int) -> memoryview:
        """Returns the next ``count`` bytes, not copied."""
        if count > self.left:
            raise PayloadError(
                f"message ends early: {count} bytes expected, {self.left} left"
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def peek(self, count: int) -> memoryview:
        """Returns up to ``count`` of the next bytes, without moving on."""
        return self._data[self._at : self._at + count]

    def number(self, form: str) -> Any:
        """Returns one number of a struct format such as ``"I"``."""
        one = struct.Struct("<" + form)
        return one.unpack(self.bytes(one.size))[0]

    def array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """Returns the next ``count`` numbers as a read-only array over the message."""
        kind = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self.bytes(kind.itemsize * count), kind)

    def end(self) -> None:
        """Raises PayloadError unless everything was read."""
        if self.left:
            raise PayloadError(f"{self.left} bytes too many at the end of the message")


def little(array: Array, dtype: str) -> memoryview:
    """Returns an array's values as little-endian bytes; a copy only where needed."""
    kind = np.dtype(dtype).newbyteorder("<")
    return np.asarray(array, kind, order="C").data.cast("B")


# ----------------------------------------- payloads, and the contract of their formats


VERSION, DEFLATED = 1, 2
_HEADER = struct.Struct("<BBI")
_DEFLATED = struct.Struct("<BI")
_STRIDES = (1, 2, 4)
_ALIGNED = 64  # bytes

Exact = tuple[Any, npt.NDArray[np.float64]]  # places, and the values there
Layout = tuple[int, ...]  # the number of values of each tensor


@dataclass(frozen=True, slots=True)
class Payload:
    """One message about a vector of ``dim`` values: a format and its arrays.

    The arrays of a stack of messages have leading axes, with one message a row.
    """

    format: str
    dim: int
    arrays: Mapping[str, Array]
    deflates: bool = True  # where that makes it smaller

    @property
    def nbytes(self) -> int:
        """The number of bytes that :func:`pack` returns."""
        return sum(memoryview(part).nbytes for part in pack_parts(self))


class Format(NamedTuple):
    """Defines the layout and the meaning of one kind of message.

    A message of a few values has ``places`` and ``values``; decoding and adding follow
    from them. Any other has ``decode``; without it, its array ``values`` is the vector.
    """

    name: str
    code: int  # the byte that names it on the wire; it never changes
    pack: Callable[[Payload], list[Bytes]]
    unpack: Callable[[Reader, Layout], dict[str, Array]]
    decode: Callable[[Payload], Array] | None = None
    # the coordinates that it may change, ascending; without it, or None: all
    places: Callable[[Payload], Any] | None = None
    # the values there
    values: Callable[[Payload], Array] = lambda payload: payload.arrays["values"]
    # out += scale * decode(payload), in place, where there is a faster way
    add: Callable[[Payload, Vector, np.float32], None] | None = None
    # the factor between the largest magnitude in its arrays and that of the vector
    multiple: Callable[[Payload], float] | None = None
    # the bound on the magnitude, where it is no such product
    magnitude: Callable[[Payload], float] | None = None
    # bytes of the numbers that it is mostly made of: 1, 2 or 4; None: never deflated
    stride: int | None = 1
    # where messages add up without rounding: the places and values of one, in double
    # precision; one message that is the sum of many, or None if it would be rounded;
    # and the message that takes one back, where a sum becomes smaller by it
    exact: Callable[[Payload], Exact] | None = None
    merge: Callable[[Sequence[Payload]], Payload | None] | None = None
    negative: Callable[[Payload], Payload] | None = None
    # the same message, such that adding it costs a pass over what it changes at most
    prepare: Callable[[Payload], Payload] | None = None


_by_name: dict[str, Format] = {}
_by_code: dict[int, Format] = {}


def register(form: Format) -> Format:
    """Makes a format known to :func:`unpack`."""
    if form.code in _by_code:
        raise ValueError(f"code {form.code} is taken by {_by_code[form.code].name!r}")
    _by_name[form.name] = _by_code[form.code] = form
    return form


def formats() -> tuple[Format, ...]:
    """Returns all registered formats."""
    return tuple(_by_name.values())


def form_of(payload: Payload) -> Format:
    """Returns the format of a message."""
    return _by_name[payload.format]


def for_rows(
    leading: Sequence[int], arrays: Mapping[str, npt.NDArray[Any]]
) -> dict[str, Array]:
    """Arrays that all messages of a stack share, once for each row.

    Args:
        leading: the shape of the stack; empty for a single message.
        arrays: the arrays of one message.
    """
    if not leading:
        return dict(arrays)
    return {
        name: np.broadcast_to(array, (*leading, *array.shape))
        for name, array in arrays.items()
    }


def pack_parts(payload: Payload) -> list[Bytes]:
    """Returns the bytes that travel, in pieces; large arrays are not copied."""
    head, *body = pack_plain(payload)
    form = form_of(payload)
    if not payload.deflates or form.stride is None:
        return [head, *body]
    size = sum(memoryview(part).nbytes for part in body)
    small = deflate(body, form.stride) if size <= _most(payload.dim) else None
    if small is None or _DEFLATED.size + len(small) >= size:
        return [head, *body]
    about = _DEFLATED.pack(form.stride, size)
    return [_HEADER.pack(DEFLATED, form.code, payload.dim), about, small]


def pack_plain(payload: Payload) -> list[Bytes]:
    """Packs a message inside another one, which is never deflated by itself."""
    form = form_of(payload)
    return [_HEADER.pack(VERSION, form.code, payload.dim), *form.pack(payload)]


def _most(dim: int) -> int:
    """Returns the most bytes of a deflated body: little more than float32."""
    return min(4 * dim + 1024, (1 << 32) - 1)


def pack(payload: Payload) -> bytes:
    """Returns the bytes that travel."""
    return b"".join(pack_parts(payload))


def _memory(nbytes: int) -> npt.NDArray[np.uint8]:
    return np.empty(nbytes, np.uint8)


def room(
    nbytes: int, memory: Callable[[int], npt.NDArray[np.uint8]] = _memory
) -> memoryview:
    """Returns memory for a message that is to arrive.

    The values behind the head of a ``dense`` message are aligned in it, so that they
    can be used where they lie.

    Args:
        nbytes: of the message.
        memory: returns so many bytes that can be written to.
    """
    whole = memory(nbytes + _ALIGNED)
    start = -(whole.ctypes.data + _HEADER.size) % _ALIGNED
    return whole[start : start + nbytes].data


def unpack(data: Bytes, layout: Layout, declared: Declared | None = None) -> Payload:
    """Reads a peer's bytes.

    Args:
        data: the message.
        layout: the sizes of the model's tensors.
        declared: the formats that are accepted, and for each the most values that
            decoding may pass over; None: all formats, at any cost.

    Raises:
        PayloadError: the bytes do not describe such a vector, or are not as declared.
            What was allocated by then is bounded by the message and the model,
            whatever it claims.
    """
    return _unpack(data, layout, (VERSION, DEFLATED), declared)


def unpack_plain(data: Bytes, layout: Layout, declared: Declared | None) -> Payload:
    """Reads a message inside another one, like :func:`unpack`."""
    return _unpack(data, layout, (VERSION,), declared)


def _unpack(
    data: Bytes, layout: Layout, versions: tuple[int, ...], declared: Declared | None
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
        reader = _inflate(reader, dim, most)
    reader.declared = declared
    reader.steps = None if declared is None else declared[form.name]
    arrays = form.unpack(reader, layout)
    reader.end()
    return Payload(form.name, dim, arrays, deflates=version == DEFLATED)


def _most_about(values: int, layout: Layout) -> int:
    """Returns the most bytes of a body about this number of values."""
    return 16 * (values + len(layout)) + 1024


def _inflate(reader: "Reader", dim: int, most: int) -> "Reader":
    """Returns a reader of the body that was deflated."""
    stride, size = _DEFLATED.unpack(reader.bytes(_DEFLATED.size))
    if stride not in _STRIDES:
        raise PayloadError(f"unknown stride {stride}, expected one of {_STRIDES}")
    if size > most:
        raise PayloadError(
            f"{size} bytes deflated, expected at most {most} about {dim} values"
        )
    return Reader(inflate(reader.bytes(reader.left), size, stride))


def format_of(data: Bytes) -> str:
    """Returns the format that the header of a message names; empty if it is unknown."""
    form = _by_code.get(memoryview(data)[1]) if len(data) > 1 else None
    return form.name if form else ""
