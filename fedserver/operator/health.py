"""Asks a server whether it is healthy.

A container's probe does so every few seconds. It imports as little as it can: the two
messages of ``grpc.health.v1`` are a few bytes, which need no protocol buffers.
"""

from typing import Any

from fedwire.connect import SERVICE, explaining, parse_address

from fedcore.errors import UnavailableError

_PATIENCE = 5.0  # seconds
_CHECK = "/grpc.health.v1.Health/Check"
_REQUEST = b"\n" + bytes([len(SERVICE)]) + SERVICE.encode()  # field 1: the service
_SERVING = b"\x08\x01"  # field 1 of the reply: the status
_OTHERS = {b"": "unknown", b"\x08\x02": "not serving", b"\x08\x03": "service unknown"}


def ask_health(host: str, **trust: Any) -> str:
    """Returns ``serving``.

    Raises:
        UnavailableError: the server does not answer, or is not serving.
    """
    address = parse_address(host, **trust)
    with address.channel() as channel, explaining(address):
        reply = channel.unary_unary(_CHECK, None, None)(_REQUEST, timeout=_PATIENCE)
    if reply != _SERVING:
        raise UnavailableError(f"{address} is {_OTHERS.get(reply, 'not serving')}")
    return "serving"
