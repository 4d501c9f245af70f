"""The frame of the methods that send every value, in messages of one format."""

from abc import abstractmethod
from typing import ClassVar

from fedcore.compressors.base import Compressor, CompressorConfig, Keys, stateless
from fedcore.payloads import Declared, Layout, Payload
from fedcore.typing import Array


class EveryValueConfig(CompressorConfig):
    """Every value travels; there is no memory."""

    format: ClassVar[str]

    @abstractmethod
    def message(self, delta_D: Array, key: Keys, layout: Layout) -> Payload:
        """Returns the message of ``delta_D``, shape (..., D), in this format."""

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format; decoding passes over each value once."""
        return {self.format: sum(layout)}

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout."""
        return stateless(lambda delta_D, key: self.message(delta_D, key, layout))
