"""The meaning of messages of any format: decoding, adding, bounds and sums."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedcore.arrays import BLOCK, like, scatter
from fedcore.kernels import add_rows
from fedcore.payloads.base import Exact, Payload, form_of
from fedcore.typing import Array, Indices, Vector


def decode(payload: Payload) -> Array:
    """Returns the float32 vector that the message stands for, shape ``(..., D)``.

    Raises:
        PayloadError: the message holds new values of a model, and is no update.
    """
    form = form_of(payload)
    if form.decode is not None:
        return form.decode(payload)
    values = form.values(payload)
    if form.places is None:
        return values
    return scatter(payload.dim, like(form.places(payload), values), values)


def add(payload: Payload, out_D: Vector, scale: float = 1.0) -> None:
    """Adds ``scale * decode(payload)`` to ``out``, at the cost of the message.

    Products and sums are rounded one after the other, in the order of the messages.
    """
    form, factor = form_of(payload), np.float32(scale)
    if form.add is not None:
        form.add(payload, out_D, factor)
    elif form.places is not None:
        out_D[form.places(payload)] += form.values(payload) * factor
    else:
        _add_scaled(decode(payload), out_D, factor)


def _add_scaled(values_D: Vector, out_D: Vector, scale: np.float32) -> None:
    if scale == 1:
        out_D += values_D
    elif len(out_D) <= BLOCK:
        out_D += values_D * scale
    else:
        add_rows([(values_D[np.newaxis], 0)], [float(scale)], out_D)


def support(payload: Payload) -> Indices | None:
    """Returns the coordinates that the message may change, ascending; None: all."""
    places = form_of(payload).places
    found: Indices | None = places(payload) if places else None
    return found


def magnitude(payload: Payload) -> float:
    """Bounds the magnitudes of the decoded values; NaN if one of them is NaN."""
    form = form_of(payload)
    if form.magnitude is not None:
        return form.magnitude(payload)
    extremes = [
        float(bound(array))
        for array in payload.arrays.values()
        if np.issubdtype(array.dtype, np.floating) and array.size
        for bound in (np.max, np.min)
    ]
    largest = float(np.max(np.abs(extremes))) if extremes else 0.0
    return largest * (form.multiple(payload) if form.multiple else 1.0)


def prepare(payload: Payload) -> Payload:
    """Makes the message cheap to add; sums with it stay the same."""
    own = form_of(payload).prepare
    return own(payload) if own else payload


def exact(message: Payload) -> Exact | None:
    """Places and values in double precision; None if sums of this format round."""
    own = form_of(message).exact
    return own(message) if own else None


def merge(messages: Sequence[Payload]) -> Payload | None:
    """Returns one message that is the exact sum of these; None if there is none."""
    forms = {message.format: form_of(message) for message in messages}
    own = next(iter(forms.values())).merge if len(forms) == 1 else None
    return own(messages) if own else None


def cancels(message: Payload) -> bool:
    """Returns whether subtracting this message makes a sum smaller again."""
    return form_of(message).negative is not None


def negative(message: Payload) -> Payload:
    """Returns the message that takes this one back, if it cancels."""
    own = form_of(message).negative
    assert own is not None
    return own(message)


def rows(payload: Payload) -> list[Payload]:
    """Returns the single messages of a stack."""
    first = next(iter(payload.arrays.values()))
    return [
        replace(payload, arrays={k: a[i] for k, a in payload.arrays.items()})
        for i in range(first.shape[0])
    ]
