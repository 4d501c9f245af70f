"""The contract of a callback, and the notifier that calls callbacks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fedcore.coordinator.events import Evaluated, Event
from fedcore.typing import Seconds
from fedrun.run import Run
from fedview.results import Results, is_number


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesDecided:
    """The stacked simulator has decided on updates, and perhaps made a version.

    Only callbacks receive it; the coordinator has no such event.
    """

    at: Seconds
    count: int  # all updates that are in the model


Notice = Event | UpdatesDecided
"""An event that a :class:`Notifier` passes on."""

TOTALS = ("seconds", "versions", "accepted", "bytes_up", "bytes_down")


class Callback:
    """Is called as a run goes on; a subclass overrides the methods that it needs.

    Example:
        A subclass with ``def on_metrics(self, version, seconds, values): ...`` that
        calls ``self.stop("good enough")`` once ``values["accuracy"]`` is above .9.
    """

    stopped: str | None = None
    """The reason given to :meth:`stop`; None before it is called."""

    def stop(self, reason: str) -> None:
        """Ends the run here; its ``Results`` are returned like those of any other.

        Args:
            reason: why the run ends; the report and ``summary["ended"]`` show it.
        """
        self.stopped = reason

    def on_begin(self, config: Mapping[str, Any], folder: Path) -> None:
        """Does its part when the run begins.

        Args:
            config: the whole config, as plain data.
            folder: the folder of the run.
        """

    def on_metrics(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        """Takes the metrics of each evaluation by an evaluator.

        At the end it is also called for evaluations by clients: for each version with
        the means weighted by samples, as ``clients/NAME``, and ``clients/samples``.

        Args:
            version: the version that was evaluated.
            seconds: since the run began; virtual ones in a simulation.
            values: the value of each metric.
        """

    def on_end(self, results: Results | None) -> None:
        """Takes the results when the run ends; None after an error or Ctrl-C."""


class Notifier:
    """Calls callbacks as a run goes on, and ends them with a ``with`` block."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks
        self._began, self._ended = False, False

    def __call__(self, run: Run, event: Notice) -> str | None:
        """Passes an event on to the callbacks; returns a reason to stop, if any."""
        if not self._began:
            self._began = True
            config = run.config.model_dump(mode="json")
            for callback in self._callbacks:
                callback.on_begin(config, run.journal.folder)
        if isinstance(event, Evaluated):
            state = run.coordinator.state
            if state.clients[event.cid].role == "evaluator":
                started = event.at if state.started is None else state.started
                self._tell(event.version, event.at - started, event.values)
        reasons = (callback.stopped for callback in self._callbacks)
        return next((reason for reason in reasons if reason is not None), None)

    def end(self, results: Results | None) -> None:
        """Tells the callbacks once that the run has ended."""
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
        """Returns the notifier itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends a run that did not come to its end."""
        self.end(None)


def _by_clients(results: Results) -> Iterator[tuple[int, Seconds, dict[str, float]]]:
    table = results.federated
    names = [name for name in results.metric_names if name in table]
    for place, version in enumerate(table.get("version", [])):
        values = {f"clients/{name}": table[name][place] for name in names}
        values["clients/samples"] = table["samples"][place]
        yield version, table["seconds"][place], values


def totals(results: Results) -> dict[str, float]:
    """Returns the main numbers of a run, by name."""
    return {f"total/{name}": float(results.summary[name]) for name in TOTALS}


def flat(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields settings one by one, named as ``--set`` names them."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
