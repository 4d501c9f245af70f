"""What a callback is told, and who tells it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedcore.coordinator.events import Event, ModelEvaluated
from fedcore.typing import Seconds
from fedrun.results import Results, is_number
from fedrun.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesDecided:
    """The stacked simulator has decided on updates, and perhaps made a version.

    Only those who watch the run are told; the coordinator knows no such event.
    """

    at: Seconds
    count: int  # all updates that are in the model


Notice = Event | UpdatesDecided
"""What those who watch a run are told of."""

TOTALS = ("seconds", "versions", "accepted", "bytes_up", "bytes_down")


class Callback:
    """Told of a run as it goes; a class of one's own replaces what it needs."""

    stopped: str | None = None
    """Why the run is to end, since :meth:`stop` was called."""

    def stop(self, reason: str) -> None:
        """Ends the run here; its ``Results`` are returned as those of any other.

        Args:
            reason: shown as the end of the run.
        """
        self.stopped = reason

    def on_begin(self, config: Mapping[str, Any], folder: Path) -> None:
        """The run has begun.

        Args:
            config: all of it, as plain data.
            folder: of the run.
        """

    def on_metrics(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        """The evaluator has measured a version.

        What clients measured is told at the end, as ``clients/NAME``, for each version
        the mean weighted by samples, of ``clients/samples``.

        Args:
            version: of the model.
            seconds: since the run began, virtual ones of a simulation.
            values: of each metric.
        """

    def on_end(self, results: Results | None) -> None:
        """The run has ended; with None it was stopped by an error or by Ctrl-C."""


class Notifier:
    """Tells callbacks what happens: ``latecomer.run(..., callbacks=[...])`` has one.

    At its end a ``with`` block tells those that were not told of the run's end.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks
        self._began, self._ended = False, False

    def __call__(self, run: Run, event: Notice) -> str | None:
        """Something has happened in a run; returns why it is to end here, if it is."""
        if not self._began:
            self._began = True
            config = run.config.model_dump(mode="json")
            for callback in self._callbacks:
                callback.on_begin(config, run.journal.folder)
        if isinstance(event, ModelEvaluated):
            state = run.coordinator.state
            if state.clients[event.cid].role == "evaluator":
                started = event.at if state.started is None else state.started
                self._tell(event.version, event.at - started, event.values)
        reasons = (callback.stopped for callback in self._callbacks)
        return next((reason for reason in reasons if reason is not None), None)

    def end(self, results: Results | None) -> None:
        """The run has ended."""
        if self._ended or not self._began:
            return
        self._ended = True
        for row in _by_clients(results) if results is not None else ():
            self._tell(*row)
        for callback in self._callbacks:
            callback.on_end(results)

    def _tell(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        known = {name: value for name, value in values.items() if is_number(value)}
        for callback in self._callbacks:
            callback.on_metrics(version, seconds, known)

    def __enter__(self) -> Self:
        """Nothing is told yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """A run that did not come to its end was stopped."""
        self.end(None)


def _by_clients(
    results: Results,
) -> Iterator[tuple[int, Seconds, dict[str, float]]]:
    table = results.federated
    names = [name for name in results.metric_names if name in table]
    for place, version in enumerate(table.get("version", [])):
        values = {f"clients/{name}": table[name][place] for name in names}
        values["clients/samples"] = table["samples"][place]
        yield version, table["seconds"][place], values


def totals(results: Results) -> dict[str, float]:
    """A run in a few numbers."""
    return {f"total/{name}": float(results.summary[name]) for name in TOTALS}


def flat(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings one by one, named as ``--set`` names them."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
