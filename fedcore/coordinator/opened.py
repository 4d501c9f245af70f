"""Reads the payload of an update. This needs no state, so any thread can do it."""

from typing import NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.params import ParamSpec
from fedcore.payloads import Declared, Payload
from fedcore.protocol import LARGEST
from fedcore.typing import Bytes


class Opened(NamedTuple):
    """A payload that was read, or why it could not be read."""

    payload: Payload | None = None
    absurd: str = ""  # why its values cannot be used; empty: they can
    error: Exception | None = None  # raised in place of a payload


def open_update(
    data: Bytes, spec: ParamSpec, declared: Declared | None = None
) -> Opened:
    """Reads an update as a peer sent it; never raises.

    Args:
        data: the packed payload.
        spec: of the model that it must fit.
        declared: the formats that the uplink makes; others are refused.
    """
    try:
        payload = payloads.unpack(data, spec.sizes, declared)
        absurd = _absurd(payload, spec)
        return Opened(payload if absurd else payloads.prepared(payload), absurd)
    except Exception as error:  # noqa: BLE001 -- the verdict tells it
        return Opened(error=error)


def _absurd(payload: Payload, spec: ParamSpec) -> str:
    """What is wrong with the values; empty if they are finite and not too large."""
    if payload.format == "values" or payloads.magnitude(payload) <= LARGEST:
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        tensor = spec.beyond(payloads.decode(payload), LARGEST)
    where = f" in {tensor!r}" if tensor else ""  # none: only the bound is so large
    return f"the update holds NaN, infinite or absurdly large values{where}"
