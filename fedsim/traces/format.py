"""The format of a trace: the activities of each client, as a chain of segments.

The CSV has one segment a row, in the columns below; docs/simulation.md describes it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from fedcore.typing import Seconds

State = Literal["away", "there", "task"]
STATES: tuple[State, ...] = get_args(State)
MUST_HAVE = ("client", "start", "end", "state")
OF_DEVICE = ("step_seconds", "up_mbit", "down_mbit", "latency")
OF_DATA = ("index", "count")  # the client's part of the data
OF_CLIENT = (*OF_DEVICE, *OF_DATA)
COLUMNS = (*MUST_HAVE, "steps", *OF_CLIENT)
MESSAGES = 3  # the latencies between a lease and its update


class Segment(NamedTuple):
    """A time that a client spends in a state; the next segment begins at its end."""

    start: Seconds
    end: Seconds  # infinite: it never ends
    state: State
    steps: int = 0  # local steps of a task


@dataclass(slots=True)
class ClientTrace:
    """One client; the config replaces unknown values, which are None."""

    name: str
    segments: list[Segment] = field(default_factory=list)
    step_seconds: Seconds | None = None
    up_mbit: float | None = None
    down_mbit: float | None = None
    latency: Seconds | None = None
    index: int | None = None  # its part of the data, of ``count`` parts
    count: int | None = None  # without both, its place in the file counts

    @property
    def end(self) -> Seconds:
        """The end of its last segment."""
        return self.segments[-1].end

    @property
    def stays(self) -> Iterator[tuple[Seconds, Seconds]]:
        """Yields the beginning and end of each time of the client's availability."""
        begun: Seconds | None = None
        for segment in self.segments:
            if segment.state == "away":
                if begun is not None:
                    yield begun, segment.start
                begun = None
            elif begun is None:
                begun = segment.start
        if begun is not None:
            yield begun, self.end

    def seconds_a_step(self, latency: Seconds) -> list[Seconds]:
        """Returns the seconds of a local step in each task.

        Args:
            latency: the latency of a message; messages are no part of a task's steps.
        """
        return [
            max(0.0, segment.end - segment.start - MESSAGES * latency) / segment.steps
            for segment in self.segments
            if segment.state == "task" and math.isfinite(segment.end)
        ]
