"""Bringing a public model up to date, bit for bit.

Float addition is not associative: a sum of missed messages yields another model
than the messages in order (about 80 % of the coordinates differ after 50). So a
patch either replays the messages one by one, or overwrites values.
"""

from collections.abc import Iterable
from typing import assert_never

import numpy as np

from fedcore import payloads
from fedcore.errors import PayloadError
from fedcore.payloads import Layout, Payload
from fedcore.protocol import PatchKind
from fedcore.typing import Bytes, Vector


def publish(public_D: Vector, message: Payload) -> Vector:
    """Returns W - decode(message), with each product and sum rounded."""
    moved_D = public_D.copy()
    payloads.add(message, moved_D, -1.0)
    return moved_D


def moves_exactly(before_D: Vector, message: Payload | None, after_D: Vector) -> bool:
    """Returns whether the message took one model to the other without rounding.

    Where all did, in any order and also added up, they lead to the same bits.
    """
    known = None if message is None else payloads.exact(message)
    if known is None:
        return False
    places, said_K = known
    before_K = before_D[places].astype(np.float64)
    after_K = after_D[places].astype(np.float64)
    moved_K = before_K - after_K
    exact_K = (moved_K == said_K) & (moved_K + after_K == before_K)
    # -0.0 that goes and comes back is 0.0; a sum would leave it alone.
    negative_zero_K = (before_K == 0) & np.signbit(before_K) & (said_K != 0)
    return bool((exact_K & ~negative_zero_K).all())


def apply_patch(
    held_D: Vector | None, kind: PatchKind, parts: Iterable[Bytes], layout: Layout
) -> Vector:
    """Returns the model that a patch yields; the old one is left untouched.

    Raises:
        PayloadError: the bytes do not describe such a patch.
    """
    match kind:
        case "full":
            whole = list(parts)
            if len(whole) != 1:
                raise PayloadError(f"a full model in {len(whole)} messages")
            values_D: Vector = payloads.decode(payloads.unpack(whole[0], layout))
            if values_D.dtype == np.float32 and values_D.flags.aligned:
                return values_D  # where they have arrived
            return np.array(values_D, np.float32)
        case "none" | "replay" | "overwrite":
            if held_D is None:
                raise PayloadError(
                    f"a patch of kind {kind!r} needs a model to apply to"
                )
            if kind == "none":
                return held_D
            moved_D = held_D.copy()
            for part in parts:
                message = payloads.unpack(part, layout)
                if kind == "replay":
                    payloads.add(message, moved_D, -1.0)
                else:
                    payloads.overwrite(message, moved_D)
            return moved_D
        case _:
            assert_never(kind)
