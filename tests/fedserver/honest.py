"""What must still work after an attack, and how attackers are answered."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from fedwire.v1 import federation_pb2 as pb

from tests.peer import Peer, packed
from tests.served import Served, ones, until


def still_serves(server: Served) -> None:
    """An honest client joins, and its update makes a version."""
    before = server.state.version
    with Peer(server.address, uuid.uuid4().hex, server.state.exact_D.size) as peer:
        peer.pull()
        assert peer.push(packed(ones(peer.dim))).answer == pb.ANSWER_ACCEPTED
    assert server.error is None
    until(lambda: server.state.version == before + 1, "a version is made")


def answered(call: Callable[[], Any]) -> Any:
    """The answer to a call, or None if it was refused as the caller's fault."""
    try:
        return call()
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
            return None
        raise


@contextmanager
def refused(code: str, words: str) -> Iterator[None]:
    """The call in this block is answered with a status and a sentence."""
    with pytest.raises(grpc.RpcError) as caught:
        yield
    error = caught.value
    assert isinstance(error, grpc.Call)
    assert (error.code().name, words in (error.details() or "")) == (code, True), error
