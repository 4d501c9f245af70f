"""What the methods share that treat tensors apart: a message of messages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from fedcore.compressors.base import Compressor, Context, Keys, fold_in, stateless
from fedcore.payloads import Layout, Payload, dense_payload, parts_payload
from fedcore.payloads.parts import gather, groups_of, messages, stretches
from fedcore.typing import Array

EXACT = stateless(lambda delta_D, _: dense_payload(delta_D))

Part = tuple[Sequence[int], Compressor]  # numbers of tensors, and what is for them


def by_parts(layout: Layout, parts: Sequence[Part]) -> Compressor:
    """A compressor without memory for each group of tensors; all others are dropped."""
    groups = [group for group, _ in parts]
    where = stretches(layout, groups)

    def encode(delta_D: Array, key: Keys) -> Payload:
        own_messages = []
        for (group, compressor), slices in zip(parts, where, strict=True):
            # A key of its own, else tensors of one size would draw the same numbers.
            own = fold_in(key, "tensor", group[0])
            message, _ = compressor.encode(gather(delta_D, slices), None, own)
            own_messages.append(message)
        return parts_payload(layout, groups, own_messages, delta_D.shape[:-1])

    def given(context: Context) -> Compressor:
        before = cache(lambda: _by_group(context.previous()))

        def own(group: Sequence[int], slices: Sequence[slice]) -> Context:
            return replace(
                context,
                public_D=gather(context.public_D, slices),
                previous=lambda: before().get(tuple(group)),
            )

        known = [
            (group, compressor.at(partial(own, group, slices)))
            for (group, compressor), slices in zip(parts, where, strict=True)
        ]
        return by_parts(layout, known)

    depends = any(compressor.given for _, compressor in parts)
    return stateless(encode, given if depends else None)


def _by_group(previous: Payload | None) -> Mapping[tuple[int, ...], Payload]:
    """The parts of an earlier message."""
    if previous is None or previous.format != "parts":
        return {}
    return {
        tuple(group): message
        for group, (_, message) in zip(
            groups_of(previous), messages(previous), strict=True
        )
    }
