"""``fedserver run`` without the counting of bytes, to measure what that costs.

``python -m benchmarks.speed.uncounted run CONFIG`` takes what ``fedserver`` takes.
"""

from typing import Any

from fedwire.service import handlers

from fedserver import server
from fedserver.cli import main


def plain_handlers(metered: Any) -> Any:
    """The service itself, as gRPC reads and writes its messages."""
    return handlers(metered._service)


if __name__ == "__main__":
    server.raw_handlers = plain_handlers  # type: ignore[assignment, attr-defined]
    main()
