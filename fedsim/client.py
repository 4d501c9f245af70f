"""A simulated client: a device, its side of the protocol, and its fate.

Its task is computed when the result falls due, with the arithmetic of a deployment:
the same order of arrival gives the same model, bit for bit.
"""

import logging
import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientFailed,
    ClientLost,
    ClientPulled,
    ModelEvaluated,
    SamplesSkipped,
    UpdatePushed,
)
from fedcore.errors import DivergedError, UserCodeError
from fedcore.participant import Outcome, Participant, ParticipantState
from fedcore.protocol import Ack, Reply
from fedcore.training import Trainer
from fedcore.typing import Counts, Seconds
from fedcore.workload import (
    AFTER_FAILURE,
    MOST_FAILURES,
    Client,
    Workload,
    last_words,
    user_code,
)
from fedsim.clock import Call
from fedsim.evaluator import Measure
from fedsim.population import Device, Population
from fedsim.world import World

_log = logging.getLogger("fedsim")
RETRY: Seconds = 1.0  # after an upload broke, or its acknowledgement was lost


def coming(algorithm: AlgorithmConfig, population: Population) -> Iterable[int]:
    """In which order clients come at the beginning.

    Where there is not a task for each of them, the first ones get those of version 0,
    unless ``min_clients`` makes the server wait: who they are is drawn, or else they
    would always be the same.
    """
    tasks = algorithm.cohort if algorithm.synchronous else algorithm.concurrency
    is_for_all = tasks is None or tasks >= population.count
    if is_for_all or algorithm.min_clients >= population.count:
        return range(population.count)
    return population.order()


class SimulatedClient:
    """One client in a world."""

    def __init__(
        self,
        world: World,
        device: Device,
        workload: Workload,
        trainer: Trainer,
        measure: Measure | None = None,
    ) -> None:
        """``measure`` is what it evaluates with, where clients do."""
        self._measure = measure
        self._world, self._device = world, device
        self._workload, self._trainer = workload, trainer
        self._life = 0  # what was begun in an earlier life never happens
        self._is_there = False  # what is sent to it meanwhile is lost
        self._task = 0  # its number, which chance goes by
        self._attempt = 0  # the number of this update's uploads
        self._deaf = False  # the next acknowledgement is lost
        self._recorded = False  # when it delivers is told, not simulated
        self._failures = 0
        self._gave_up = False
        coordinator = world.run.coordinator
        state = ParticipantState(device.name, world.run.run_id, coordinator.state.epoch)
        self.participant = Participant(coordinator.algorithm, state)
        world.actors[device.name] = self
        world.feed(
            ClientEnrolled(
                at=world.clock.now,
                cid=device.name,
                name=device.name,
                index=device.index,
                count=device.count,
            )
        )
        origin = coordinator.state.published.origin
        self.participant.derive(world.version_0, origin)

    @cached_property
    def client(self) -> Client:
        """Whoever asks for its data."""
        return self._device.client

    @cached_property
    def _data(self) -> Any:
        with user_code(f"train_data of {self._device.name}"):
            return self._workload.train_data(self.client)

    @cached_property
    def _samples(self) -> int:
        data, whose = self._data, f"train_data of {self._device.name}"
        with user_code(whose):
            if self._workload.train is not None and not isinstance(data, tuple):
                return len(data)
            return len(self._workload.samples(data, whose))

    @cached_property
    def label_counts(self) -> Counts | None:
        """How often each class is in its data; None where there are no labels."""
        with user_code(f"train_data of {self._device.name}"):
            samples = self._workload.samples(self._data, "train_data")
            return samples.label_counts(np.arange(len(samples)))

    @property
    def name(self) -> str:
        """Who it is."""
        return self._device.name

    # --------------------------------------------------------------------- fate

    def begin_life(self) -> None:
        """It comes, for the first time or again."""
        if self._gave_up:
            return
        self._life += 1
        now = self._world.clock.now
        change = self._device.next_change(now)
        if change is not None:
            when, comes = change
            if comes:
                self._at(when, self.begin_life)
                return
            self._at(when, self._leave)
        elif not self._device.is_there(now):
            return
        self._is_there = True
        if self.participant.state.pending is not None:
            self._upload()
        else:
            self._pull()

    def _leave(self) -> None:
        """It goes, until it comes again, if ever."""
        change = self._device.next_change(self._world.clock.now)
        self._go(math.inf if change is None else change[0])

    def _drop_out(self) -> None:
        """It is lost in its task."""
        self._go(self._world.clock.now + self._device.away(self._task))

    def _go(self, until: Seconds) -> None:
        """It is lost, with whatever it was doing."""
        self._life += 1
        self._is_there = False
        missed = self._world.clock.now + self._world.run.config.timeouts.lost
        if until > missed:
            self._at(missed, self._missed)
        if until < math.inf:
            self._at(until, self.begin_life)

    def _missed(self) -> None:
        self._world.feed(ClientLost(at=self._world.clock.now, cid=self._device.name))

    def _later(self, delay: Seconds, call: Call) -> None:
        """Something happens to it after a while, unless its life ends before."""
        self._at(self._world.clock.now + delay, call)

    def _at(self, time: Seconds, call: Call) -> None:
        """The same at a time."""
        life = self._life
        self._world.clock.at(time, lambda: call() if self._life == life else None)

    # -------------------------------------------------------------------- tasks

    def _pull(self) -> None:
        world = self._world
        if wait := self.participant.rest(world.clock.now):
            self._later(wait, self._pull)
            return
        pull = self.participant.pull(world.nonce())
        event = ClientPulled(
            at=world.clock.now, pull=pull, fresh_epoch=world.fresh_epoch()
        )
        world.feed(event)

    def replied(self, reply: Reply) -> None:
        """The model is on its way."""
        if not self._is_there:
            return
        delay = self._device.download(reply.patch.nbytes)
        self._later(delay, lambda: self._receive(reply))

    def _receive(self, reply: Reply) -> None:
        self.participant.used(reply.patch.nbytes, self._world.clock.now)
        if not self.participant.receive(reply) or reply.done:
            return
        if reply.task is None:
            self._later(reply.retry_after, self._pull)
            return
        try:
            if reply.task.evaluate:
                self._evaluate()
            self._task += 1
            duration = self._device.compute(self._task, self._steps())
            lost = self._device.dropout(self._task)
        except UserCodeError as error:
            self._confess(error)
            return
        if lost is not None:
            self._later(lost * duration, self._drop_out)
        else:
            self._later(duration, self._finish)

    def _steps(self) -> int:
        config = self._world.run.coordinator.algorithm.config.client
        return config.step_count(self._samples, self.participant.state.work)

    def _finish(self) -> None:
        try:
            trained = self._train()
        except UserCodeError as error:
            self._confess(error)
            return
        self._failures = 0
        if trained:
            self._attempt = 0
            self._upload()
        else:
            self._pull()

    def _confess(self, error: UserCodeError) -> None:
        """The user's code raised: the server is told, and the federation goes on."""
        self._failures += 1
        if self._failures == 1:
            _log.warning("%s: %s", self.name, error)
        text = last_words(error)
        self._world.feed(
            ClientFailed(at=self._world.clock.now, cid=self.name, error=text)
        )
        if self._failures < MOST_FAILURES:
            self._later(AFTER_FAILURE * 2**self._failures, self._pull)
            return
        self._gave_up = True
        failure = type(error)(f"{self.name}: {self._failures} times in a row: {error}")
        failure.__cause__ = error.__cause__
        self._world.failures.append(failure)
        self._later(self._world.run.config.timeouts.lost, self._missed)

    def _train(self) -> bool:
        """Computes its task; says whether there is an update to send."""
        participant, seed = self.participant, self._world.run.config.seed
        trained, base, key = self._trainer.task(
            participant.state, self._data, seed, self._device.name
        )
        if trained.skipped:
            self._world.feed(
                SamplesSkipped(
                    at=self._world.clock.now,
                    cid=self.name,
                    count=trained.skipped,
                    why=trained.why,
                )
            )
        sends = participant.finish(trained, base, key)
        if participant.unusable:
            raise DivergedError(participant.unusable)
        return sends

    def _evaluate(self) -> None:
        state = self.participant.state
        assert state.held is not None
        assert state.public_D is not None
        assert self._measure is not None
        values, samples = self._measure(self.client, state.public_D)
        self._world.feed(
            ModelEvaluated(
                at=self._world.clock.now,
                cid=self._device.name,
                version=state.held.version,
                values=values,
                samples=samples,
            )
        )

    # ------------------------------------------------------------------ updates

    def _upload(self) -> None:
        pending = self.participant.state.pending
        assert pending is not None
        now, nbytes = self._world.clock.now, len(pending.push.payload)
        if wait := self.participant.rest(now):
            self._later(wait, self._upload)
            return
        duration = self._device.upload(nbytes)
        self._attempt += 1
        part = self._device.upload_breaks(self._task, self._attempt)
        if part is not None:
            self.participant.used(int(part * nbytes), now)
            self._later(part * duration + RETRY, self._upload)
        else:
            self.participant.used(nbytes, now)
            self.participant.uploaded(duration, now)
            self._later(duration, self._push)

    def deliver(self) -> None:
        """Trains, and its update arrives in the same moment, as a record says."""
        if self._train():
            self._recorded = True
            self._push()

    def _push(self) -> None:
        """Its update arrives."""
        world = self._world
        self._deaf = self._device.ack_lost(self._task, self._attempt)
        world.feed(UpdatePushed(at=world.clock.now, push=self.participant.push()))

    def acknowledged(self, ack: Ack) -> None:
        """The verdict is on its way, or lost."""
        if self._recorded:
            self.participant.settle(ack)
        elif self._deaf:
            self._later(RETRY, self._upload)
        else:
            self._later(self._device.latency, lambda: self._settle(ack))

    def _settle(self, ack: Ack) -> None:
        outcome = self.participant.settle(ack)
        if outcome is Outcome.RETRY:
            self._later(RETRY, self._upload)
        elif outcome is not Outcome.IGNORED:
            self._pull()
