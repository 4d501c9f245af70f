"""No compression: every value travels as float32."""

from typing import ClassVar, Literal

from fedcore.compressors._every_value import EveryValueConfig
from fedcore.compressors.base import Class, Keys
from fedcore.payloads import Layout, Payload, dense_payload
from fedcore.typing import Array


class Identity(EveryValueConfig):
    """No compression: 4 bytes a value."""

    format: ClassVar[str] = "dense"
    kind: Literal["identity"] = "identity"

    @property
    def is_exact(self) -> bool:
        """Returns True: every value travels."""
        return True

    @property
    def bias(self) -> Class:
        """Returns the class of a contraction with δ = 1."""
        return "contraction"

    def message(self, delta_D: Array, key: Keys, layout: Layout) -> Payload:
        """Returns the message of the values as they are."""
        return dense_payload(delta_D)
