"""Evaluations by clients of the models that they are given, until they are sent."""

from collections.abc import Callable

from fedcore.coordinator.answers import Evaluations
from fedcore.coordinator.events import Evaluated
from fedcore.model import Metrics
from fedcore.typing import JSON, Seconds, State, Vector
from fedcore.workload import Client
from fedsim.evaluator import EvaluateModel


class OwnEvaluations:
    """Evaluations by clients of models that have not reached them yet.

    A model is evaluated when the task is given, because it is at hand then.
    """

    def __init__(
        self,
        evaluate: EvaluateModel | None,
        evaluations: Evaluations,
        client: Callable[[int], Client],
        held: Callable[[int], int],
    ) -> None:
        """Begins without any evaluation.

        Args:
            evaluate: evaluates models for clients; None if they evaluate none.
            evaluations: the coordinator's evaluations.
            client: returns the client at a place.
            held: returns the version that a client holds.
        """
        self._evaluate_model, self._evaluations = evaluate, evaluations
        self._client, self._held = client, held
        self._waiting: dict[int, tuple[int, dict[str, float], int]] = {}

    @property
    def are_made(self) -> bool:
        """Whether clients evaluate at all."""
        return self._evaluate_model is not None

    def asks(self, cid: str, version: int) -> bool:
        """Returns whether a client that is given a task shall evaluate its model."""
        return self._evaluate_model is not None and self._evaluations.asks(cid, version)

    def metrics(self, who: int, model_D: Vector, kept: State) -> Metrics:
        """Returns the metrics of a model and its kept values on a client's own data.

        Raises:
            UserCodeError: the user's code raised.
        """
        assert self._evaluate_model is not None
        client, version = self._client(who), self._held(who)
        return self._evaluate_model(client, model_D, version, kept)[0]

    def prepare(self, who: int, version: int, public_D: Vector, kept: State) -> None:
        """Lets a client evaluate the model that is on its way to it.

        Raises:
            UserCodeError: the user's code raised.
        """
        assert self._evaluate_model is not None
        client = self._client(who)
        values, samples = self._evaluate_model(client, public_D, version, kept)
        self._waiting[who] = version, dict(values), samples

    def take(self, who: int, at: Seconds) -> Evaluated:
        """Returns the evaluation that a client sends when the model has reached it."""
        version, values, samples = self._waiting.pop(who)
        cid = self._client(who).name
        return Evaluated(
            at=at, cid=cid, version=version, values=values, samples=samples
        )

    def dump(self) -> JSON:
        """Returns the evaluations that were not sent yet."""
        return list(self._waiting.items())

    def load(self, saved: JSON) -> None:
        """Restores the evaluations that :meth:`dump` returned."""
        self._waiting = {
            who: (version, values, samples) for who, (version, values, samples) in saved
        }
