"""New values of some coordinates: what a client overwrites to catch up.

``u32 k, u8 coding, coded indices, float32[k]``, as in ``sparse``, but the numbers
are values of the model and not of an update. Zeros are values like any other.
"""

from typing import NoReturn

from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Payload, register
from fedcore.payloads.sparse import indices, pack_entries, unpack_entries
from fedcore.typing import Bytes, Indices, Vector


def values_payload(dim: int, indices_K: Indices, values_K: Vector) -> Payload:
    """Returns the message that sets ``values_K`` at ascending ``indices_K``."""
    return Payload("values", dim, {"indices": indices_K, "values": values_K})


def overwrite(payload: Payload, model_D: Vector) -> None:
    """Sets the values, in place.

    Raises:
        PayloadError: the message is an update.
    """
    if payload.format != "values":
        raise PayloadError(
            f"a message of format {payload.format!r} holds no new values"
        )
    model_D[payload.arrays["indices"]] = payload.arrays["values"]


def _pack(payload: Payload) -> list[Bytes]:
    return pack_entries(indices(payload), payload.arrays["values"], payload.dim)


def _refuse(*_: object) -> NoReturn:
    raise PayloadError("new values of a model are no update")


VALUES = register(
    Format("values", 5, _pack, unpack_entries, _refuse, indices, add=_refuse, stride=4)
)
