"""What the methods share that treat tensors apart: a message of messages."""

from collections.abc import Sequence

from fedcore.compressors.base import Compressor, Keys, fold_in, stateless
from fedcore.payloads import Layout, Payload, dense_payload, parts_payload
from fedcore.payloads.parts import gather, stretches
from fedcore.typing import Array

EXACT = stateless(lambda delta_D, _: dense_payload(delta_D))


def by_parts(
    layout: Layout, parts: Sequence[tuple[Sequence[int], Compressor]]
) -> Compressor:
    """A compressor without memory for each group of tensors; all others are dropped."""
    groups = [group for group, _ in parts]
    where = stretches(layout, groups)

    def encode(delta_D: Array, key: Keys) -> Payload:
        messages = []
        for (group, compressor), slices in zip(parts, where, strict=True):
            # A key of its own, else tensors of one size would draw the same numbers.
            own = fold_in(key, "tensor", group[0])
            message, _ = compressor.encode(gather(delta_D, slices), None, own)
            messages.append(message)
        return parts_payload(layout, groups, messages, delta_D.shape[:-1])

    return stateless(encode)
