"""The simulated evaluator: it takes no time, so it never holds up what it measures."""

from collections.abc import Collection
from typing import Any

from fedcore.coordinator.events import ClientEnrolled, ClientPulled, ModelMeasured
from fedcore.errors import ConfigError
from fedcore.participant import Participant, ParticipantState
from fedcore.protocol import Ack, Reply
from fedcore.workload import FlatModel, Metrics, user_code
from fedsim.world import World

NAME = "evaluator"


class SimulatedEvaluator:
    """An enrolled evaluator which owns the test set."""

    def __init__(
        self,
        world: World,
        model: FlatModel,
        test_data: Any,
        needed: Collection[str] = (),
    ) -> None:
        """``needed`` names what must be measured, or the run would never end."""
        self._world, self._model, self._test = world, model, test_data
        self._needed = needed
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
        """Whether the newest version was measured."""
        state = self._world.run.coordinator.state
        return state.measured == state.version

    def _pull(self) -> None:
        world = self._world
        pull = self._participant.pull(world.nonce())
        world.feed(
            ClientPulled(at=world.clock.now, pull=pull, fresh_epoch=world.fresh_epoch())
        )

    def replied(self, reply: Reply) -> None:
        """A model to measure, after what happens at this moment has happened."""
        self._world.clock.after(0.0, lambda: self._receive(reply))

    def _receive(self, reply: Reply) -> None:
        world = self._world
        self._participant.receive(reply)
        if reply.task is not None:
            public_D = self._participant.state.public_D
            assert public_D is not None
            with user_code("evaluation"):
                values, samples = self._model.evaluate(public_D, self._test)
            self._require(values)
            world.feed(
                ModelMeasured(
                    at=world.clock.now,
                    cid=NAME,
                    version=reply.patch.version,
                    values=values,
                    samples=samples,
                )
            )
        if not reply.done:
            self._pull()

    def _require(self, values: Metrics) -> None:
        missing = [name for name in self._needed if name not in values]
        if missing and self._world.run.coordinator.state.measured is None:
            raise ConfigError(
                f"stop.target: {', '.join(missing)} is not measured; measured: "
                f"{', '.join(sorted(values))}"
            )

    def acknowledged(self, ack: Ack) -> None:
        """It sends no updates."""
