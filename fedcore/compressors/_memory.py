"""The frame of the methods that remember from message to message."""

from abc import abstractmethod
from typing import Self

import numpy as np
from pydantic import model_validator

from fedcore.compressors.base import (
    AnyCompressor,
    Class,
    Compressor,
    CompressorConfig,
    Holds,
    Keys,
)
from fedcore.compressors.top_k import TopK
from fedcore.params import ParamSpec
from fedcore.payloads import Declared, Layout, Payload
from fedcore.typing import Array


class MemoryConfig(CompressorConfig):
    """A memory of shape (D,) around a contraction, which starts at zero."""

    inner: AnyCompressor = TopK()
    """A contraction; with an unbiased compressor the memory would grow for ever."""

    @property
    def bias(self) -> Class:
        """The class of the inner compressor."""
        return self.inner.bias

    @property
    def holds(self) -> Holds:
        """``work``: the memory holds values that the inner compressor has left out."""
        return "work"

    def shorter(self, share: float) -> Self | None:
        """Returns these settings with a shorter inner compressor."""
        inner = self.inner.shorter(share)
        return None if inner is None else self.model_copy(update={"inner": inner})

    def limit(self, memory: Array, delta: Array) -> Array:
        """Returns the part of the memory that an update's message takes: all."""
        return memory

    @abstractmethod
    def keep(self, memory_D: Array, corrected_D: Array, sent: Payload) -> Array:
        """Returns the memory if the message counts: of the one before, u = e + Δ and q.

        It owns u, and may write into it, unless the message does as well.
        """

    def list_formats(self, layout: Layout) -> Declared:
        """Returns the formats of the inner compressor."""
        return self.inner.list_formats(layout)

    def list_formats_for(self, spec: ParamSpec) -> Declared:
        """Returns the formats of the inner compressor."""
        return self.inner.list_formats_for(spec)

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout."""
        return self.remember(self.inner.build(layout))

    def build_for(self, spec: ParamSpec) -> Compressor:
        """Returns the compressor for this model."""
        return self.remember(self.inner.build_for(spec))

    def remember(self, inner: Compressor) -> Compressor:
        """Puts a memory around a compressor; the config refuses what would diverge."""

        def encode(delta_D: Array, memory_D: Array, key: Keys) -> tuple[Payload, Array]:
            corrected_D = memory_D + delta_D
            payload, _ = inner.encode(corrected_D, None, key)
            return payload, self.keep(memory_D, corrected_D, payload)

        adapt = inner.adapt
        return Compressor(
            _zeros,
            encode,
            adapt and (lambda context: self.remember(adapt(context))),
            inner.recall,
            self.limit,
        )

    @model_validator(mode="after")
    def _inner_contracts(self) -> Self:
        if isinstance(self.inner, MemoryConfig):
            raise ValueError(
                f"{self.inner.kind} inside {self.kind}: one memory is enough"
            )
        if self.inner.bias != "contraction":
            raise ValueError(
                f"{self.inner.kind} is {self.inner.bias} with these settings, and an "
                "error memory around it grows without end; choose a contraction (such "
                "as top_k, sign_l1, random_k with unbiased: false, uniform with "
                "rounding: nearest)"
            )
        return self


def _zeros(dim: int) -> Array:
    return np.zeros(dim, np.float32)
