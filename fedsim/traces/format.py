"""A trace: the life of each client as a chain of segments, and what it is made of.

The CSV has one segment a row, in the columns below; docs/simulation.md describes it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from fedcore.typing import Seconds

What = Literal["away", "there", "task"]
STATES: tuple[What, ...] = get_args(What)
MUST_HAVE = ("client", "start", "end", "state")
OF_DEVICE = ("step_seconds", "up_mbit", "down_mbit", "latency")
OF_DATA = ("index", "count")  # which part of the data it has
OF_CLIENT = (*OF_DEVICE, *OF_DATA)
COLUMNS = (*MUST_HAVE, "steps", *OF_CLIENT)
MESSAGES = 3  # latencies between a lease and its update: there, back, and there again


class Segment(NamedTuple):
    """A client is in a state for a while; what follows begins where this ends."""

    start: Seconds
    end: Seconds  # infinite: for ever
    state: What
    steps: int = 0  # of a task: local steps


@dataclass(slots=True)
class ClientTrace:
    """One client. What is None is not known, and the config says it."""

    name: str
    segments: list[Segment] = field(default_factory=list)
    step_seconds: Seconds | None = None
    up_mbit: float | None = None
    down_mbit: float | None = None
    latency: Seconds | None = None
    index: int | None = None  # its place among ``count``, where data are shared out
    count: int | None = None  # None, like index: by its place in the file

    @property
    def end(self) -> Seconds:
        """Up to when something is known of it."""
        return self.segments[-1].end

    @property
    def stays(self) -> Iterator[tuple[Seconds, Seconds]]:
        """From when to when it is there, without what lies between."""
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
        """Of each task what a local step took, without the link's part."""
        return [
            max(0.0, segment.end - segment.start - MESSAGES * latency) / segment.steps
            for segment in self.segments
            if segment.state == "task" and math.isfinite(segment.end)
        ]
