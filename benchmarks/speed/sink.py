"""A bare grpc.aio server that takes the same frames, and drops them.

``python -m benchmarks.speed.sink`` prints its port. Its cost is the minimum for any
Python server of this transport.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from fedwire.connect import SERVICE
from fedwire.v1 import federation_pb2 as pb

from benchmarks.speed.processes import answer


async def push(frames: AsyncIterator[bytes], context: Any) -> pb.PushReply:
    """Takes an update to its end."""
    async for _ in frames:
        pass
    return pb.PushReply(answer=pb.ANSWER_ACCEPTED)


async def main() -> None:
    server = grpc.aio.server()
    handler = grpc.stream_unary_rpc_method_handler(
        push, response_serializer=pb.PushReply.SerializeToString
    )
    methods = {"Push": handler}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, methods),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    answer(f"127.0.0.1:{port}")
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
