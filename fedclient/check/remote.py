"""Requests to a server that check something and change nothing."""

import time
from collections.abc import Callable
from typing import NamedTuple

import grpc
from fedwire.connect import SERVICE, Address, explain
from fedwire.convert import read_answer
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fedclient.wire.connection import Connection
from fedcore.errors import RefusedError, UnavailableError
from fedcore.protocol import Answer, Push, Verdict
from fedcore.typing import Seconds

ROUND_TRIPS = 5
PATIENCE: Seconds = 10.0
TRIES = 5  # attempts at a trial while those of other clients fill the server
MEASURABLE = 1 << 16  # minimum size of an upload that shows the speed of a link
_SERVING = health_pb2.HealthCheckResponse.SERVING


class Upload(NamedTuple):
    """One upload that did not count."""

    answer: Verdict | Answer
    reason: str
    nbytes: int
    seconds: Seconds

    def rate(self, round_trip: Seconds) -> tuple[float, bool]:
        """Returns bytes a second, and whether the link may be much faster."""
        on_the_way = max(self.seconds - round_trip, 1e-6)
        return self.nbytes / on_the_way, self.nbytes < MEASURABLE


def round_trip(address: Address) -> Seconds:
    """Asks for a server's health several times; returns the shortest time of an answer.

    Raises:
        RefusedError: no federation is served there.
        UnavailableError: the server is about to stop, or does not answer.
    """
    with address.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        ask: Callable[[], health_pb2.HealthCheckResponse] = lambda: stub.Check(  # noqa: E731
            health_pb2.HealthCheckRequest(service=SERVICE), timeout=PATIENCE
        )
        try:
            health = ask()
            times = []
            for _ in range(ROUND_TRIPS):
                began = time.monotonic()
                ask()
                times.append(time.monotonic() - began)
        except grpc.RpcError as error:
            if error.code() in (
                grpc.StatusCode.UNIMPLEMENTED,
                grpc.StatusCode.NOT_FOUND,
            ):
                raise RefusedError(
                    f"{address} speaks gRPC, but serves no federation"
                ) from error
            raise explain(error, address) from error
    if health.status != _SERVING:
        raise UnavailableError(f"{address} is about to stop, and will be back")
    return min(times)


def ask(connection: Connection, request: pb.CheckRequest) -> pb.CheckReply:
    """Asks whether a client would be enrolled.

    Raises:
        RefusedError: the server is too old to be asked.
    """
    try:
        return connection.check(request)
    except RefusedError as error:
        cause = error.__cause__
        if (
            isinstance(cause, grpc.RpcError)
            and cause.code() is grpc.StatusCode.UNIMPLEMENTED
        ):
            raise RefusedError(
                f"{connection.address} serves a federation, but is too old to be "
                "asked by fedclient check"
            ) from error
        raise


def upload(connection: Connection, push: Push) -> Upload:
    """Sends an update that does not count.

    Raises:
        UnavailableError: the server has no room for it.
    """
    for _ in range(TRIES):
        began = time.monotonic()
        reply = connection.trial(push)
        seconds = time.monotonic() - began
        answer = read_answer(reply.answer)
        if answer is not Answer.RETRY:
            return Upload(answer, reply.reason, len(push.payload), seconds)
        time.sleep(1.0)
    raise UnavailableError(
        f"{connection.address} took no upload: it is busy, or the bytes arrive damaged"
    )
