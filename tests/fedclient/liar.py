"""A server that says whatever a test wants, true or not."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from fedwire.connect import Address
from fedwire.service import UNARY, handlers


class Liar:
    """What is not said is not implemented."""

    def __init__(self, says: dict[str, Callable[[Any, Any], Any]]) -> None:
        for name in map(str.lower, UNARY):
            setattr(self, name, says.get(name, self._nothing))
        for name in ("pull", "attend"):
            setattr(self, name, says.get(name, self._no_stream))
        self.push = says.get("push", self._nothing)
        self.trial = says.get("trial", self._nothing)

    def _nothing(self, request: Any, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "not today")

    def _no_stream(
        self, request: Any, context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "not today")
        yield b""


@contextmanager
def lying(**says: Callable[[Any, Any], Any]) -> Iterator[Address]:
    """A server with these answers."""
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handlers(Liar(says)),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield Address("127.0.0.1", port)
    finally:
        server.stop(None).wait()


def frames(sent: Iterable[bytes]) -> Callable[[Any, Any], Iterator[bytes]]:
    """A pull that is answered with these frames."""
    return lambda request, context: iter(sent)
