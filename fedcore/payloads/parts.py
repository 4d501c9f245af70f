"""Messages about groups of the model's tensors, one for each group.

==== ======== ==========================================================
at   size     content
==== ======== ==========================================================
0    2        G, the number of groups, as u16; at most one per tensor
2    the rest the groups, one after the other
==== ======== ==========================================================

Each group:

==== ======== ==========================================================
at   size     content
==== ======== ==========================================================
0    2        n, how many tensors it has, as u16; at least one
2    i        their numbers in the model, as indices below the number of
              tensors (:mod:`fedcore.payloads.indices`)
2+i  4        size of its message in bytes, as u32
6+i  the size a payload with its own header, whose D is the number of
              values of these tensors, as if they were the whole model
==== ======== ==========================================================

No tensor is in two groups, and one that is in none stands for zeros. The payload
inside may be of any format but ``values`` (5), which is no update, and ``parts`` (10).
A group of one tensor takes 9 bytes beside its payload, or 8 in a model of up to eight
tensors.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, like
from fedcore.errors import PayloadError
from fedcore.payloads.base import (
    Format,
    Layout,
    Payload,
    Reader,
    for_rows,
    formats,
    pack_plain,
    register,
    unpack_plain,
)
from fedcore.payloads.indices import pack_indices, unpack_indices
from fedcore.payloads.meaning import add, decode, magnitude, prepare, support
from fedcore.payloads.values import VALUES
from fedcore.typing import Array, Bytes, Indices, Vector

_CODE = 10
_NONE = -1  # the group of a tensor that is in none

Group = Sequence[int]  # numbers of tensors, ascending


def parts_payload(
    layout: Layout,
    groups: Sequence[Group],
    messages: Sequence[Payload],
    leading: tuple[int, ...] = (),
) -> Payload:
    """Returns a message made of one message for each group of tensors.

    Args:
        layout: the sizes of all tensors.
        groups: the numbers of the tensors of each group, ascending.
        messages: a message about each group.
        leading: the shape of the stack, if the messages are stacks.
    """
    codes = {form.name: form.code for form in formats()}
    group_of_T = np.full(len(layout), _NONE, np.int64)
    for number, group in enumerate(groups):
        group_of_T[np.asarray(group, np.int64)] = number
    arrays = for_rows(
        leading,
        {
            "sizes": np.asarray(layout, np.int64),
            "groups": group_of_T,
            "formats": np.array([codes[each.format] for each in messages], np.uint8),
        },
    )
    for number, message in enumerate(messages):
        for name, array in message.arrays.items():
            arrays[f"{number}.{name}"] = array
    deflates = all(message.deflates for message in messages)
    return Payload("parts", sum(layout), arrays, deflates)


def stretches(layout: Layout, groups: Sequence[Group]) -> list[list[slice]]:
    """Returns each group's slices of the vector; neighbours are one slice."""
    ends = np.cumsum(np.asarray(layout, np.int64)).tolist()
    found = []
    for group in groups:
        slices: list[slice] = []
        for number in group:
            start, end = ends[number] - layout[number], ends[number]
            if slices and slices[-1].stop == start:
                start = slices.pop().start
            slices.append(slice(start, end))
        found.append(slices)
    return found


def gather(x_D: Array, slices: Sequence[slice]) -> Array:
    """Returns the values of a group as one vector; a view where they lie together."""
    if len(slices) == 1:
        return x_D[..., slices[0]]
    return array_namespace(x_D).concat([x_D[..., part] for part in slices], axis=-1)


def spread(values: Array, slices: Sequence[slice], out_D: Array) -> None:
    """Writes the values of a group to their slices."""
    at = 0
    for part in slices:
        end = at + part.stop - part.start
        out_D[..., part] = values[..., at:end]
        at = end


def _row(payload: Payload, name: str) -> list[int]:
    """Returns an array that all rows of a stack share, as a list."""
    array = np.asarray(payload.arrays[name])
    row: list[int] = array[(0,) * (array.ndim - 1)].tolist()
    return row


def groups_of(payload: Payload) -> list[list[int]]:
    """Returns the tensors of each group."""
    groups: list[list[int]] = [[] for _ in _row(payload, "formats")]
    for number, group in enumerate(_row(payload, "groups")):
        if group != _NONE:
            groups[group].append(number)
    return groups


def messages(payload: Payload) -> Iterator[tuple[list[slice], Payload]]:
    """Yields for each group its slices of the vector, and its message."""
    names = {form.code: form.name for form in formats()}
    codes = _row(payload, "formats")
    arrays: list[dict[str, Array]] = [{} for _ in codes]
    for name, array in payload.arrays.items():
        number, dot, own = name.partition(".")
        if dot:
            arrays[int(number)][own] = array
    slices = stretches(tuple(_row(payload, "sizes")), groups_of(payload))
    for code, where, own_arrays in zip(codes, slices, arrays, strict=True):
        dim = sum(part.stop - part.start for part in where)
        yield where, Payload(names[code], dim, own_arrays)


def _pack(payload: Payload) -> list[Bytes]:
    groups, tensors = groups_of(payload), len(_row(payload, "sizes"))
    body: list[Bytes] = [np.array(len(groups), "<u2").tobytes()]
    for group, (_, message) in zip(groups, messages(payload), strict=True):
        packed = pack_plain(message)
        size = sum(memoryview(part).nbytes for part in packed)
        body += [
            np.array(len(group), "<u2").tobytes(),
            *pack_indices(np.asarray(group, np.int64), tensors),
            np.array(size, "<u4").tobytes(),
            *packed,
        ]
    return body


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    count, tensors = reader.number("H"), len(layout)
    if count > tensors:
        raise PayloadError(f"{count} groups in a model of {tensors} tensors")
    reader.spend(count)
    taken_T = np.zeros(tensors, bool)
    groups, messages = [], []
    for _ in range(count):
        size = reader.number("H")
        if not 0 < size <= tensors:
            raise PayloadError(f"{size} of {tensors} tensors in a group")
        group = unpack_indices(reader, size, tensors)
        if taken_T[group].any():
            raise PayloadError("a tensor is in two groups")
        taken_T[group] = True
        body = reader.bytes(reader.number("I"))
        if len(body) > 1 and body[1] in (_CODE, VALUES.code):
            raise PayloadError(f"format {body[1]} cannot be a part of a message")
        groups.append(group.tolist())
        messages.append(
            unpack_plain(
                body, tuple(layout[number] for number in groups[-1]), reader.declared
            )
        )
    return dict(parts_payload(layout, groups, messages).arrays)


def _decode(payload: Payload) -> Array:
    shape = (*payload.arrays["sizes"].shape[:-1], payload.dim)
    out_D = None
    for where, message in messages(payload):
        values = decode(message)
        if out_D is None:
            out_D = like(np.zeros(shape, np.float32), values)
        spread(values, where, out_D)
    return np.zeros(shape, np.float32) if out_D is None else out_D


def _add(payload: Payload, out_D: Vector, scale: np.float32) -> None:
    for where, message in messages(payload):
        part = gather(out_D, where)
        add(message, part, float(scale))
        if len(where) > 1:
            spread(part, where, out_D)


def _support(payload: Payload) -> Indices | None:
    may_change_D = np.zeros(payload.dim, bool)
    for where, message in messages(payload):
        places = support(message)
        if places is None:
            spread(np.ones(message.dim, bool), where, may_change_D)
            continue
        in_group = np.zeros(message.dim, bool)
        in_group[as_numpy(places)] = True
        spread(in_group, where, may_change_D)
    return None if may_change_D.all() else np.flatnonzero(may_change_D)


def _magnitude(payload: Payload) -> float:
    largest = [magnitude(message) for _, message in messages(payload)]
    return float(np.max(largest, initial=0.0))  # NaN if one of them is


def _prepare(payload: Payload) -> Payload:
    layout = tuple(_row(payload, "sizes"))
    parts = [prepare(message) for _, message in messages(payload)]
    return parts_payload(layout, groups_of(payload), parts)


PARTS = register(
    Format(
        "parts",
        _CODE,
        _pack,
        _unpack,
        _decode,
        places=_support,
        add=_add,
        magnitude=_magnitude,
        prepare=_prepare,
    )
)
