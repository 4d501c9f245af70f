"""The evaluations of a simulation, which take no virtual time."""

import logging
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from fedcore.arrays import as_numpy
from fedcore.clients import ClientAlgorithmConfig
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Evaluated,
    Failed,
)
from fedcore.coordinator.settings import find_unreported
from fedcore.errors import ConfigError, WorkloadError
from fedcore.model import FlatModel, Metrics
from fedcore.participant import Participant, ParticipantState
from fedcore.protocol import Ack, Reply
from fedcore.training import evaluate_central, evaluate_own, text_of_model
from fedcore.typing import Seconds, State, Vector
from fedcore.user_code import AFTER_FAILURE, MOST_FAILURES, last_words, user_code
from fedcore.workload import Client, Workload
from fedsim.world import World

NAME = "evaluator"
_log = logging.getLogger("fedsim")
EvaluateModel = Callable[[Client, Vector, int, State], tuple[Metrics, int]]


class SimulatedEvaluator:
    """An enrolled evaluator, which owns the test set."""

    def __init__(
        self,
        world: World,
        model: FlatModel,
        test_data: Any,
        needed: Collection[str] = (),
    ) -> None:
        """Enrols the evaluator, which asks for a model at once.

        Args:
            world: the run.
            model: the model to evaluate.
            test_data: the data to evaluate it on.
            needed: the metrics without which the run would never end.

        Raises:
            ConfigError: on the first evaluation, if one of them is missing.
        """
        self._world, self._model, self._test = world, model, test_data
        self._needed = needed
        self._failures = 0  # failures of the user's code in a row
        self.failure: WorkloadError | None = None
        """The error that ended the evaluations; None if there is none."""
        coordinator = world.run.coordinator
        state = ParticipantState(NAME, world.run.run_id, coordinator.state.epoch)
        self._participant = Participant(coordinator.algorithm, state)
        world.actors[NAME] = self
        world.feed(
            ClientEnrolled(at=world.clock.now, cid=NAME, name=NAME, role="evaluator")
        )
        self._pull()

    @property
    def is_done(self) -> bool:
        """Whether the newest version was evaluated, or no further one will be."""
        state = self._world.run.coordinator.state
        return state.evaluated == state.version or self.failure is not None

    def _pull(self) -> None:
        world = self._world
        pull = self._participant.pull(world.nonce())
        world.feed(
            ClientPulled(at=world.clock.now, pull=pull, fresh_epoch=world.fresh_epoch())
        )

    def receive_reply(self, cid: str, reply: Reply) -> None:
        """Evaluates the model after all other events of this moment."""
        self._world.clock.after(0.0, lambda: self._receive(reply))

    def _receive(self, reply: Reply) -> None:
        world = self._world
        self._participant.receive(reply)
        if reply.task is not None:
            public_D = self._participant.state.public_D
            assert public_D is not None
            try:
                with user_code("evaluation"):
                    values, samples = evaluate_central(
                        self._model, public_D, reply.patch.version, self._test
                    )
                    text = text_of_model(self._model, public_D)
            except WorkloadError as error:
                self._fail(error)
                return
            self._failures = 0
            self._require(values)
            world.feed(
                Evaluated(
                    at=world.clock.now,
                    cid=NAME,
                    version=reply.patch.version,
                    values=values,
                    samples=samples,
                    text=text,
                )
            )
        if not reply.done:
            self._pull()

    def _fail(self, error: WorkloadError) -> None:
        """Retries after an error of the user's code, unless the code has never worked.

        Raises:
            WorkloadError: nothing was evaluated so far, or the run needs its metrics.
        """
        world = self._world
        if world.run.coordinator.state.evaluated is None and not self._failures:
            raise error
        self._failures += 1
        _log.warning("%s: %s", NAME, error)
        now = world.clock.now
        world.feed(Failed(at=now, cid=NAME, error=last_words(error)))
        if self._failures < MOST_FAILURES:
            world.clock.after(AFTER_FAILURE * 2**self._failures, self._pull)
            return
        if self._needed:
            raise error
        _log.warning(
            "%s: failed %d times in a row; nothing is evaluated any more",
            NAME,
            MOST_FAILURES,
        )
        told = (
            f"{NAME}: {MOST_FAILURES} times in a row, so that the run went on without"
        )
        self.failure = type(error)(f"{told}: {error}")
        self.failure.__cause__ = error.__cause__

    def _require(self, values: Metrics) -> None:
        """Checks once that metrics are numbers, and that the targets are among them.

        Raises:
            ConfigError: a target is missing, and nothing else would end the run.
        """
        coordinator = self._world.run.coordinator
        if coordinator.state.evaluated is not None:
            return
        for name, value in values.items():
            if not math.isfinite(value):
                _log.warning("%s: %s is %s", NAME, name, value)
        target = coordinator.rounds.stop.target
        if not self._needed:
            for sentence in find_unreported(target, values):
                _log.warning("%s", sentence)
        elif missing := [name for name in sorted(target) if name not in values]:
            raise ConfigError(
                f"stop.target: {', '.join(missing)} is not evaluated; evaluated: "
                f"{', '.join(sorted(values))}"
            )

    def receive_ack(self, cid: str, ack: Ack) -> None:
        """Does nothing, because an evaluator sends no updates."""

    def receive_refusal(self, cid: str, rest: Seconds) -> None:
        """Does nothing, because an evaluator asks for no training."""


def own_evaluation(
    workload: Workload, model: FlatModel, config: ClientAlgorithmConfig
) -> EvaluateModel:
    """Returns a function that evaluates a model on a client's own ``valid_data``.

    The function takes the client, the public model (D,), its version and the client's
    kept state, and returns metrics and the number of samples.

    Raises:
        ConfigError: the workload has no ``valid_data``.
    """
    valid_data = workload.valid_data
    if valid_data is None:
        raise ConfigError(
            "evaluate.clients: true needs a workload with valid_data=, the clients' "
            "own evaluation data, and so do controllers that compare models"
        )

    def evaluate(
        client: Client, public_D: Vector, version: int, kept: State
    ) -> tuple[Metrics, int]:
        with user_code(f"evaluation of {client.name}"):
            data = valid_data(client)
            return evaluate_own(model, config, as_numpy(public_D), version, kept, data)

    return evaluate


def evaluate_last(
    world: World, clients: Iterable[tuple[Client, State]], evaluate: EvaluateModel
) -> None:
    """Lets clients evaluate the last version if they have not done so before.

    Args:
        world: the run, which has ended.
        clients: its clients, each with its kept state.
        evaluate: evaluates a model on a client's data.
    """
    coordinator, now = world.run.coordinator, world.clock.now
    version, public_D = coordinator.state.version, coordinator.state.published.public_D
    for client, kept in clients:
        cid = client.name
        if not coordinator.pulls.is_due_at_end(cid):
            continue
        coordinator.evaluations.ask(cid, version)
        try:
            values, samples = evaluate(client, public_D, version, kept)
        except WorkloadError as error:
            _log.warning("%s: %s", cid, error)
            world.feed(Failed(at=now, cid=cid, error=last_words(error)))
            continue
        world.feed(
            Evaluated(at=now, cid=cid, version=version, values=values, samples=samples)
        )
