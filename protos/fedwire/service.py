"""The methods of the service, and how their messages are read and written.

Streams of large bytes pass through untouched: :mod:`fedwire.frames` reads them.
"""

from typing import Any

import grpc

from fedwire.v1 import federation_pb2 as pb

SERVICE = "fedwire.v1.Federation"
PROTOCOLS = (1,)  # the versions spoken here

MESSAGE_LIMIT = 4 << 20  # bytes of one message; large payloads come in chunks
_UNARY: dict[str, tuple[Any, Any]] = {
    "Enrol": (pb.EnrolRequest, pb.EnrolReply),
    "Resume": (pb.ResumeRequest, pb.ResumeReply),
    "Report": (pb.ReportRequest, pb.ReportReply),
    "Leave": (pb.LeaveRequest, pb.LeaveReply),
    "Status": (pb.StatusRequest, pb.StatusReply),
}


class Stub:
    """The client's side, over a channel of either kind of gRPC."""

    def __init__(self, channel: Any) -> None:
        for name, (request, reply) in _UNARY.items():
            call = channel.unary_unary(
                f"/{SERVICE}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            setattr(self, name.lower(), call)
        self.pull = channel.unary_stream(
            f"/{SERVICE}/Pull",
            request_serializer=pb.PullRequest.SerializeToString,
            response_deserializer=None,
        )
        self.push = channel.stream_unary(
            f"/{SERVICE}/Push",
            request_serializer=None,
            response_deserializer=pb.PushReply.FromString,
        )
        self.attend = channel.stream_stream(
            f"/{SERVICE}/Attend",
            request_serializer=pb.Beat.SerializeToString,
            response_deserializer=pb.Notice.FromString,
        )

    enrol: Any
    resume: Any
    report: Any
    leave: Any
    status: Any


def handlers(servicer: Any) -> Any:
    """The server's side: ``servicer`` has a coroutine for each method."""
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, name.lower()),
            request_deserializer=request.FromString,
            response_serializer=reply.SerializeToString,
        )
        for name, (request, reply) in _UNARY.items()
    }
    methods["Pull"] = grpc.unary_stream_rpc_method_handler(
        servicer.pull, request_deserializer=pb.PullRequest.FromString
    )
    methods["Push"] = grpc.stream_unary_rpc_method_handler(
        servicer.push, response_serializer=pb.PushReply.SerializeToString
    )
    methods["Attend"] = grpc.stream_stream_rpc_method_handler(
        servicer.attend,
        request_deserializer=pb.Beat.FromString,
        response_serializer=pb.Notice.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, methods)
