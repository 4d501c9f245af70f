"""The server's half of controllers: it sees the reports of all clients.

``observe`` learns from a report, ``assign`` says what one client's next task is given.
Both are pure. The state is part of the server's: it is in its snapshots, and follows
from the records of the journal. So ``observe`` uses elementwise arithmetic alone, and
what clients choose, such as names, must not let the state grow without bound.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedcore.controllers._assignment import Assignment
from fedcore.controllers._states import States
from fedcore.measured import Device, TaskReport
from fedcore.typing import State


class Request(NamedTuple):
    """A client asks for a task."""

    client: str
    """The client's id."""
    device: Device | None = None
    """Its facts; None: unknown."""


class ServerController(NamedTuple):
    """The functions of a controller's half at the server."""

    init: Callable[[], State]
    observe: Callable[[State, TaskReport], State]
    assign: Callable[[State, Request], Assignment]


def compose_at_server(
    controllers: Mapping[str, ServerController],
) -> ServerController:
    """Makes several controllers one: shares multiply, the fewest samples count.

    Args:
        controllers: by their kinds.

    Returns:
        A controller whose state is a dict of theirs. A state may lack a controller that
        has joined since; it begins anew. Its ``assign`` raises ConfigError where one
        of them assigns what cannot be.
    """
    all_ = States(controllers)
    return ServerController(all_.init, all_.observe, all_.assign)
