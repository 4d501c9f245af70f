"""No compression: every value travels as float32."""

from typing import Literal

from fedcore.compressors.base import Class, Compressor, CompressorConfig, stateless
from fedcore.payloads import Declared, Layout, dense_payload


class Identity(CompressorConfig):
    """No compression: 4 bytes a value."""

    kind: Literal["identity"] = "identity"

    @property
    def bias(self) -> Class:
        """δ = 1."""
        return "contraction"

    def declared(self, layout: Layout) -> Declared:
        """Every value."""
        return {"dense": sum(layout)}

    def build(self, layout: Layout) -> Compressor:
        """The compressor that leaves everything as it is."""
        return stateless(lambda delta_D, _: dense_payload(delta_D))
