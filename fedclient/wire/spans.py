"""A trace for each task of a client, made of its :mod:`fedclient.wire.phases`."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from fedclient.wire.phases import Phases
from fedrun.json_lines import note_ids
from fedrun.tracing import Headers, Tracer, trace_id
from fedrun.traffic import Way


class SpanPhases(Phases):
    """Makes a trace of each task; a request for work begins a new trace."""

    def __init__(self, tracer: Tracer) -> None:
        """Uses ``tracer`` to make the spans."""
        self._tracer = tracer
        self._facts: dict[str, str] = {}
        self._task: Any = None
        self._open: Any = None  # the span of the current phase
        self._second = ""

    def begin(self, client: str, run_id: str) -> None:
        """Sets the client and the run of the traces that follow."""
        self._facts = {"client": client, "run": run_id}

    def one(self, phase: str) -> AbstractContextManager[None]:
        """Makes a span of the block."""
        return _Block(self, phase, "")

    def call(self, first: str, second: str, way: Way) -> AbstractContextManager[None]:
        """Makes two spans of the block, which :meth:`turn` divides."""
        if first == "request":
            self._end_task()
        return _Block(self, first, second)

    def turn(self) -> None:
        """Ends the first span of a call, and begins the second one."""
        if self._second:
            second, self._second = self._second, ""
            self._start(second)

    def headers(self) -> Headers:
        """Returns the metadata of a call in the current phase."""
        return self._tracer.headers(self._open)

    def close(self) -> None:
        """Ends the task, and exports its spans."""
        self._end_task()
        self._tracer.close()

    def enter(self, first: str, second: str) -> None:
        """Begins a phase."""
        if self._task is None:
            self._task = self._tracer.begin("task", **self._facts)
            note_ids(trace_id=trace_id(self._task))
        self._start(first)
        self._second = second

    def leave(self, error: BaseException | None) -> None:
        """Ends the current phase."""
        self._second = ""
        if self._open is not None:
            if error is not None:
                self._open.record_exception(error)
            self._open.end()
            self._open = None

    def _start(self, phase: str) -> None:
        if self._open is not None:
            self._open.end()
        self._open = self._tracer.begin(phase, self._task)

    def _end_task(self) -> None:
        if self._task is not None:
            self._task.end()
            self._task = None
            note_ids(trace_id=None)


class _Block(AbstractContextManager[None]):
    """A block that is a phase, or two."""

    def __init__(self, phases: SpanPhases, first: str, second: str) -> None:
        self._phases, self._first, self._second = phases, first, second

    def __enter__(self) -> None:
        self._phases.enter(self._first, self._second)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._phases.leave(error)
