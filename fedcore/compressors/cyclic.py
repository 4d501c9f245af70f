"""Cyclic blocks: a quantiser on one part of the coordinates after the other.

A random mask with quantised values is the structured update of Konečný, McMahan, Yu,
Richtárik, Suresh, Bacon, "Federated Learning: Strategies for Improving Communication
Efficiency", 2016, arXiv 1610.05492, §2; the cycle of the masks is ours. A block is
spread over the whole vector, and begins where the sender's last one ended. So every
coordinate has its turn after 1/ratio messages, and no index travels.

With a contraction inside, each coordinate of the block comes closer, and the others
wait in the memory for less than one cycle: a contraction over the messages of a cycle,
with the δ of the inner compressor. It suits memories without outliers, such as those of
small models in which all clients take part. Where a few values carry the update,
methods that look for them (top_k, dead_zone) are far better.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedcore.arrays import array_namespace, like
from fedcore.compressors.base import (
    AnyCompressor,
    Class,
    Compressor,
    CompressorConfig,
    Context,
    Keys,
    count_kept,
    formats_inside,
    stateless,
)
from fedcore.compressors.sign_l1 import SignL1
from fedcore.payloads import Declared, Layout, Payload, block_payload
from fedcore.payloads.block import INNER, block_layout, block_places, stride_of, turn_of
from fedcore.typing import Array


class Cyclic(CompressorConfig):
    """A quantiser of k = max(1, ⌊ratio·d⌋) coordinates, others in each message."""

    kind: Literal["cyclic"] = "cyclic"
    ratio: float = Field(default=0.1, gt=0, le=1)
    """Share of the values that travel."""
    inner: AnyCompressor = SignL1()
    """The quantiser: sign_l1, sign_l2, uniform, qsgd or identity."""

    @property
    def bias(self) -> Class:
        """That of the inner compressor over a cycle of messages; never unbiased."""
        return "contraction" if self.inner.bias == "contraction" else "neither"

    def shorter(self, share: float) -> Self | None:
        """Returns these settings with shorter blocks."""
        return self.model_copy(update={"ratio": self.ratio * share})

    @model_validator(mode="after")
    def _inner_is_a_quantiser(self) -> "Cyclic":
        if not formats_inside(self.inner, self.kind) <= INNER.names:
            raise ValueError(
                f"{self.inner.kind} cannot be inside cyclic; choose sign_l1, sign_l2, "
                "uniform, qsgd or identity"
            )
        return self

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format, and the inner ones for the block."""
        k = count_kept(self.ratio, sum(layout))
        return {"block": k, **self.inner.list_formats((k,))}

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout."""
        return self._from(layout, 0)

    def _from(self, layout: Layout, start: int) -> Compressor:
        dim = sum(layout)
        k = count_kept(self.ratio, dim)

        def encode(delta_D: Array, key: Keys) -> Payload:
            places_K = block_places(dim, stride_of(dim), start, k)
            inner = self.inner.build(block_layout(layout, places_K))
            xp = array_namespace(delta_D)
            values_K = xp.take(delta_D, like(places_K, delta_D), axis=-1)
            return block_payload(dim, start, inner.encode(values_K, None, key)[0])

        def adapt(context: Context) -> Compressor:
            end = context.recalled if isinstance(context.recalled, int) else 0
            return self._from(layout, end % max(1, dim))

        return stateless(encode, adapt, _end)


def _end(message: Payload) -> int | None:
    """Returns the end of a message's block; None for a message of another format."""
    if message.format != "block":
        return None
    _, start, count = turn_of(message)
    return int(start + count)
