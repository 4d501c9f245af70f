"""The frame of the methods that treat tensors apart: a message of messages."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fedcore.compressors.base import Compressor, Context, Keys, fold_in, stateless
from fedcore.payloads import Layout, Payload, dense_payload, parts_payload
from fedcore.payloads.parts import gather, groups_of, messages, stretches
from fedcore.typing import Array, State

EXACT = stateless(lambda delta_D, _: dense_payload(delta_D))

Part = tuple[Sequence[int], Compressor]  # numbers of tensors, and their compressor


def by_parts(layout: Layout, parts: Sequence[Part]) -> Compressor:
    """Returns one compressor for groups of tensors, without memory; drops others."""
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

    def adapt(context: Context) -> Compressor:
        recalled = context.recalled
        if not isinstance(recalled, tuple) or len(recalled) != len(parts):
            recalled = (None,) * len(parts)

        def own(slices: Sequence[slice], state: State) -> Context:
            return replace(
                context, public_D=gather(context.public_D, slices), recalled=state
            )

        known = [
            (group, compressor.at(partial(own, slices, state)))
            for (group, compressor), slices, state in zip(
                parts, where, recalled, strict=True
            )
        ]
        return by_parts(layout, known)

    def recall(message: Payload) -> State:
        found = {}
        if message.format == "parts":
            inside = zip(groups_of(message), messages(message), strict=True)
            found = {tuple(group): part for group, (_, part) in inside}
        return tuple(
            compressor.recall(found[tuple(group)])
            if compressor.recall and tuple(group) in found
            else None
            for group, compressor in parts
        )

    compressors = [compressor for _, compressor in parts]
    return stateless(
        encode,
        adapt if any(each.adapt for each in compressors) else None,
        recall if any(each.recall for each in compressors) else None,
    )
