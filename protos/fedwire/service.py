"""The methods of the service, and how their messages are read and written.

Frames of streams stay bytes here; :mod:`fedwire.frames` reads them.
"""

from collections.abc import Callable
from typing import Any, Literal

import grpc

from fedwire.connect import SERVICE
from fedwire.texts import clean
from fedwire.v1 import federation_pb2 as pb

PROTOCOLS = (4,)  # the versions spoken here

PREFIX = 5  # bytes that gRPC puts before each message: a flag, and the length
UNARY: dict[str, tuple[Any, Any]] = {
    "Enrol": (pb.EnrolRequest, pb.EnrolReply),
    "Check": (pb.CheckRequest, pb.CheckReply),
    "Resume": (pb.ResumeRequest, pb.ResumeReply),
    "Report": (pb.ReportRequest, pb.ReportReply),
    "Leave": (pb.LeaveRequest, pb.LeaveReply),
    "Status": (pb.StatusRequest, pb.StatusReply),
    "Free": (pb.FreeRequest, pb.FreeReply),
    "Operate": (pb.OperateRequest, pb.OperateReply),
}


Count = Callable[[Literal["up", "down"], int], None]


def _ignore(way: Literal["up", "down"], nbytes: int) -> None:
    """Counts nothing."""


class Stub:
    """The client's side, over a synchronous or an asyncio channel of gRPC.

    The texts in answers are printable and short.

    ``count`` is called with the direction and the bytes of each message, including the
    five that gRPC puts before it.
    """

    def __init__(self, channel: Any, count: Count = _ignore) -> None:
        def make_sender(serialise: Any) -> Any:
            def up(message: Any) -> bytes:
                data: bytes = serialise(message)
                count("up", PREFIX + len(data))
                return data

            return up

        def make_reader(read: Any) -> Any:
            def down(data: bytes) -> Any:
                count("down", PREFIX + len(data))
                return read(data)

            return down

        for name, (request, reply) in UNARY.items():
            call = channel.unary_unary(
                f"/{SERVICE}/{name}",
                request_serializer=make_sender(request.SerializeToString),
                response_deserializer=make_reader(_reading(reply)),
            )
            setattr(self, name.lower(), call)
        self.pull = channel.unary_stream(
            f"/{SERVICE}/Pull",
            request_serializer=make_sender(pb.PullRequest.SerializeToString),
            response_deserializer=make_reader(_as_it_is),
        )
        self.push = channel.stream_unary(
            f"/{SERVICE}/Push",
            request_serializer=make_sender(_as_it_is),
            response_deserializer=make_reader(_reading(pb.PushReply)),
        )
        self.trial = channel.stream_unary(
            f"/{SERVICE}/Trial",
            request_serializer=make_sender(_as_it_is),
            response_deserializer=make_reader(_reading(pb.TrialReply)),
        )
        self.attend = channel.stream_stream(
            f"/{SERVICE}/Attend",
            request_serializer=make_sender(pb.Beat.SerializeToString),
            response_deserializer=make_reader(_reading(pb.Notice)),
        )

    enrol: Any
    check: Any
    resume: Any
    report: Any
    leave: Any
    status: Any
    free: Any
    operate: Any


def _reading(kind: Any) -> Callable[[bytes], Any]:
    """Returns what reads an answer."""
    return lambda data: clean(kind.FromString(data))


def _as_it_is(frame: bytes) -> bytes:
    """Returns a frame unchanged."""
    return frame


def handlers(servicer: Any) -> Any:
    """Returns the server's handlers; ``servicer`` has a coroutine for each method."""
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, name.lower()),
            request_deserializer=request.FromString,
            response_serializer=reply.SerializeToString,
        )
        for name, (request, reply) in UNARY.items()
    }
    methods["Pull"] = grpc.unary_stream_rpc_method_handler(
        servicer.pull, request_deserializer=pb.PullRequest.FromString
    )
    methods["Push"] = grpc.stream_unary_rpc_method_handler(
        servicer.push, response_serializer=pb.PushReply.SerializeToString
    )
    methods["Trial"] = grpc.stream_unary_rpc_method_handler(
        servicer.trial, response_serializer=pb.TrialReply.SerializeToString
    )
    methods["Attend"] = grpc.stream_stream_rpc_method_handler(
        servicer.attend,
        request_deserializer=pb.Beat.FromString,
        response_serializer=pb.Notice.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def raw_handlers(servicer: Any) -> Any:
    """Returns handlers for a servicer that takes and returns messages as bytes."""
    methods = {
        name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name.lower()))
        for name in UNARY
    }
    methods["Pull"] = grpc.unary_stream_rpc_method_handler(servicer.pull)
    methods["Push"] = grpc.stream_unary_rpc_method_handler(servicer.push)
    methods["Trial"] = grpc.stream_unary_rpc_method_handler(servicer.trial)
    methods["Attend"] = grpc.stream_stream_rpc_method_handler(servicer.attend)
    return grpc.method_handlers_generic_handler(SERVICE, methods)
