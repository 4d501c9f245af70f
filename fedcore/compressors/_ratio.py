"""The frame of the methods that send a share of the values."""

from abc import abstractmethod
from typing import ClassVar, Self

from pydantic import Field

from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    Keys,
    count_kept,
    stateless,
)
from fedcore.payloads import Declared, Layout, Payload
from fedcore.typing import Array


class RatioConfig(CompressorConfig):
    """About k = max(1, ⌊ratio·d⌋) values travel, and fewer where the link is slow."""

    format: ClassVar[str]
    ratio: float = Field(default=0.01, gt=0, le=1)
    """Share of the values that travel."""

    @property
    def bias(self) -> Class:
        """The k largest magnitudes, or some of them, come closer: δ ≥ 1/d."""
        return "contraction"

    def shorter(self, share: float) -> Self | None:
        """Returns these settings with a smaller ratio."""
        return self.model_copy(update={"ratio": self.ratio * share})

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format; decoding passes over the values that travel."""
        return {self.format: count_kept(self.ratio, sum(layout))}

    @abstractmethod
    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """Returns the message of about ``k`` values; ``delta_D`` has shape (..., D)."""

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout."""
        k = count_kept(self.ratio, sum(layout))
        return stateless(lambda delta_D, key: self.select(delta_D, k, key))
