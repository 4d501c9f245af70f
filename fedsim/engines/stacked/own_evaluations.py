"""Evaluations by clients of the models that they are given, until they are told."""

from collections.abc import Callable

from fedcore.coordinator.answers import Evaluations
from fedcore.coordinator.events import Evaluated
from fedcore.model import Metrics
from fedcore.typing import JSON, Seconds, State, Vector
from fedcore.workload import Client
from fedsim.evaluator import EvaluateModel


class OwnEvaluations:
    """Evaluations by clients, of a model that has not reached them yet.

    They are made when the task is given, since the model is at hand then.
    """

    def __init__(
        self,
        evaluate: EvaluateModel | None,
        evaluations: Evaluations,
        client: Callable[[int], Client],
        held: Callable[[int], int],
    ) -> None:
        """Nothing is evaluated yet.

        Args:
            evaluate: what clients evaluate with; None: they do not.
            evaluations: those of the coordinator.
            client: tells a client of its place.
            held: tells the version that a client holds.
        """
        self._evaluate_model, self._evaluations = evaluate, evaluations
        self._client, self._held = client, held
        self._waiting: dict[int, tuple[int, dict[str, float], int]] = {}

    @property
    def are_made(self) -> bool:
        """Whether clients evaluate at all."""
        return self._evaluate_model is not None

    def asks(self, cid: str, version: int) -> bool:
        """Whether a client that is given a task shall evaluate its model."""
        return self._evaluate_model is not None and self._evaluations.asks(cid, version)

    def metrics(self, who: int, model_D: Vector, kept: State) -> Metrics:
        """What a model, with what is kept beside it, comes to on a client's own data.

        Raises:
            UserCodeError: the user's code raised.
        """
        assert self._evaluate_model is not None
        client, version = self._client(who), self._held(who)
        return self._evaluate_model(client, model_D, version, kept)[0]

    def prepare(self, who: int, version: int, public_D: Vector, kept: State) -> None:
        """A client evaluates what is on its way to it.

        Raises:
            UserCodeError: the user's code raised.
        """
        assert self._evaluate_model is not None
        client = self._client(who)
        values, samples = self._evaluate_model(client, public_D, version, kept)
        self._waiting[who] = version, dict(values), samples

    def take(self, who: int, at: Seconds) -> Evaluated:
        """The model has reached the client, which tells its evaluation."""
        version, values, samples = self._waiting.pop(who)
        cid = self._client(who).name
        return Evaluated(
            at=at, cid=cid, version=version, values=values, samples=samples
        )

    def dump(self) -> JSON:
        """What was not told yet."""
        return list(self._waiting.items())

    def load(self, saved: JSON) -> None:
        """What :meth:`dump` gave."""
        self._waiting = {
            who: (version, values, samples) for who, (version, values, samples) in saved
        }
