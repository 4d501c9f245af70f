"""Error feedback: what a message leaves out is remembered and sent later.

Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy
et al., "Error Feedback Fixes SignSGD", ICML 2019, Algorithm 2 (the learning rate
is inside the memory): u = e + Δ, q = C(u), e ← u - q. Here the new memory is
returned beside the message, and the participant commits it with the server's
verdict only.
"""

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from fedcore.compressors.base import (
    AnyCompressor,
    Class,
    Compressor,
    CompressorConfig,
    Keys,
)
from fedcore.compressors.top_k import TopK
from fedcore.params import ParamSpec
from fedcore.payloads import Layout, Payload, decode
from fedcore.typing import Array


class ErrorFeedback(CompressorConfig):
    """A memory of all that the inner compressor left out."""

    kind: Literal["error_feedback"] = "error_feedback"
    inner: AnyCompressor = TopK()
    """A contraction; with an unbiased compressor the memory would grow for ever."""
    cap: float = Field(default=30.0, gt=0)
    """The memory may be at most this many times the norm of the new update."""

    @property
    def bias(self) -> Class:
        """Of the inner compressor."""
        return self.inner.bias

    @model_validator(mode="after")
    def _inner_contracts(self) -> "ErrorFeedback":
        if isinstance(self.inner, ErrorFeedback):
            raise ValueError(
                "error_feedback inside error_feedback: one memory is enough"
            )
        if self.inner.bias != "contraction":
            raise ValueError(
                f"{self.inner.kind} is {self.inner.bias} with these settings, and an "
                "error memory around it grows without end; choose a contraction (such "
                "as top_k, sign_l1, random_k with unbiased: false, uniform with "
                "rounding: nearest)"
            )
        return self

    def build(self, layout: Layout) -> Compressor:
        """The compressor for this layout."""
        return remember(self.inner.build(layout))

    def build_for(self, spec: ParamSpec) -> Compressor:
        """The compressor for this model."""
        return remember(self.inner.build_for(spec))


def remember(inner: Compressor) -> Compressor:
    """A memory around any compressor; the config refuses what would diverge."""

    def encode(delta_D: Array, memory_D: Array, key: Keys) -> tuple[Payload, Array]:
        corrected_D = memory_D + delta_D
        payload, _ = inner.encode(corrected_D, None, key)
        return payload, corrected_D - decode(payload)

    given = inner.given
    return Compressor(
        _zeros, encode, given and (lambda context: remember(given(context)))
    )


def _zeros(dim: int) -> Array:
    return np.zeros(dim, np.float32)
