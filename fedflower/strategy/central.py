"""The versions that the ServerApp evaluates, and its other wishes."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedcore.coordinator.events import ClientEnrolled, Evaluated, Failed
from fedcore.coordinator.state import ServerState
from fedcore.errors import WorkloadError
from fedcore.evaluation import check_metrics
from fedcore.typing import Seconds, Vector
from fedcore.user_code import last_words, user_code
from fedflower.app.messages import as_numbers
from fedflower.app.records import RecordLayout
from fedserver.children import EVALUATOR

EvaluateFunction = Callable[[int, Any], Any]  # of a version, and its ArrayRecord
_log = logging.getLogger("flwr.latecomer")  # Flower shows log lines below its name
SERVER_APP = "serverapp"  # the cid under which the ServerApp evaluates


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The ServerApp's wishes beside the recipe."""

    evaluate: Callable[[int, Vector], Mapping[str, float] | None] | None = None
    """Evaluates a version at the server."""
    every: int = 1
    """The distance in versions between two evaluations."""
    patience: Seconds = 3600.0
    """How long to wait without a single reply."""


def of_vectors(
    evaluate: EvaluateFunction | None, layout: RecordLayout
) -> Callable[[int, Vector], Mapping[str, float] | None] | None:
    """Returns the ServerApp's evaluation as one of flat vectors, shape (D,)."""
    if evaluate is None:
        return None

    def of_vector(version: int, model_D: Vector) -> Mapping[str, float] | None:
        found: Mapping[str, float] | None = evaluate(version, layout.record(model_D))
        return found

    return of_vector


class Central:
    """The ServerApp as an evaluator of the run."""

    def __init__(self, state: ServerState, wishes: Wishes, last: int | None) -> None:
        """Begins without a due evaluation.

        Args:
            state: the coordinator's state.
            wishes: the ServerApp's wishes.
            last: the version with which the run ends; it is always evaluated.
        """
        self._state, self._wishes, self._last = state, wishes, last
        self._seen = -1  # the newest version that was considered
        self._due: list[tuple[int, Vector]] = []
        self._works = state.evaluated is not None  # the user's function, once at least

    def enrolled(self, at: Seconds) -> ClientEnrolled | None:
        """Returns the event by which the ServerApp takes part; None if it does not."""
        if self._wishes.evaluate is None:
            return None
        return ClientEnrolled(at=at, cid=SERVER_APP, name=EVALUATOR, role="evaluator")

    def look(self) -> None:
        """Keeps the newest model, if it must be evaluated."""
        state = self._state
        if state.version == self._seen or self._wishes.evaluate is None:
            return
        self._seen = version = state.version
        is_known = state.evaluated is not None and state.evaluated >= version
        is_due = version % self._wishes.every == 0 or version == self._last
        if is_due and not is_known:
            self._due.append((version, state.published.public_D))

    def evaluate(self, now: Callable[[], Seconds]) -> list[Evaluated | Failed]:
        """Evaluates the due versions; returns the resulting events.

        Raises:
            WorkloadError: the user's function failed, and has never worked.
        """
        due, self._due = self._due, []
        found = list[Evaluated | Failed]()
        for version, model_D in due:
            try:
                values = self._values(version, model_D)
            except WorkloadError as error:
                if not self._works:
                    raise
                _log.warning("version %d, at the server: %s", version, error)
                failed = Failed(at=now(), cid=SERVER_APP, error=last_words(error))
                found.append(failed)
                continue
            self._works = True
            if values is None:
                continue
            _log.info("version %d, at the server: %s", version, dict(values))
            evaluated = Evaluated(
                at=now(), cid=SERVER_APP, version=version, values=values, samples=0
            )
            found.append(evaluated)
        return found

    def _values(self, version: int, model_D: Vector) -> Mapping[str, float] | None:
        assert self._wishes.evaluate is not None
        with user_code("evaluate_fn"):
            values: Mapping[str, Any] | None = self._wishes.evaluate(version, model_D)
            return None if values is None else check_metrics(as_numbers(values))
