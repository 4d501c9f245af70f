"""``fedserver run`` without the counting of bytes, to measure its cost.

``python -m benchmarks.speed.uncounted run CONFIG`` takes the arguments of
``fedserver``.
"""

from typing import Any

from fedwire.service import handlers

from fedserver import server
from fedserver.calls.pushes import PushFrames
from fedserver.cli import main


class Plain:
    """The service itself, whose answers to pulls go out as they are."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        """Its other methods."""
        return getattr(self._service, name)

    async def pull(self, request: Any, context: Any) -> None:
        """Model and work, once there is some."""
        await self._service.pull(request, context, context.write)

    async def push(self, frames: Any, context: Any) -> Any:
        """An update."""
        return await self._service.push(PushFrames(frames), context)


def plain_handlers(metered: Any) -> Any:
    """The service itself, as gRPC reads and writes its messages."""
    return handlers(Plain(metered._service))


if __name__ == "__main__":
    server.raw_handlers = plain_handlers  # type: ignore[assignment, attr-defined]
    main()
