"""A span for each version, linked to the traces of the updates that made it."""

from typing import Any

from fedcore.coordinator.events import Decided, Stepped
from fedcore.protocol import Verdict
from fedrun.journal.store import Row
from fedrun.tracing import Tracer

MOST_LINKS = 128  # of a version


class VersionSpans:
    """Makes a span for each version, and links it to the spans of its updates."""

    def __init__(self, tracer: Tracer) -> None:
        """Uses ``tracer`` to make the spans."""
        self.tracer = tracer
        self._arriving: dict[tuple[str, int], Any] = {}
        self._waiting: list[Any] = []  # the updates in the buffer

    def arrive(self, cid: str, seq: int) -> None:
        """Notes that the current span delivers this update."""
        here = self.tracer.here()
        if here is not None:
            self._arriving[cid, seq] = here

    def answered(self, cid: str, seq: int) -> None:
        """Forgets an answered update, if no record was made of it."""
        self._arriving.pop((cid, seq), None)

    def observe(self, record: Row) -> None:
        """Makes a span of a version."""
        match record:
            case Decided():
                span = self._arriving.pop((record.cid, record.seq), None)
                if span is not None and record.verdict is Verdict.ACCEPTED:
                    self._waiting.append(span)
            case Stepped():
                links, self._waiting = self._waiting[:MOST_LINKS], []
                self.tracer.moment(
                    "version",
                    links,
                    version=record.version,
                    reason=record.reason,
                    updates=record.count,
                )
            case _:
                pass
