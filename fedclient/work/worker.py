"""The training client: it pulls, trains and pushes until the run has ended."""

import logging
import time
from dataclasses import replace
from typing import Any

from fedclient.device.conditions.gate import ALWAYS, Gate
from fedclient.device.device import (
    NO_ENERGY,
    Power,
    joules,
    read_power,
    this_device,
)
from fedclient.device.pace import AT_ONCE, Pace
from fedclient.wire.connection import Refusal
from fedclient.wire.phases import Phases
from fedclient.work.ahead import Ahead
from fedclient.work.membership import Membership, require_valid_data
from fedclient.work.verdicts import log_verdict
from fedcore.controllers import Report
from fedcore.errors import (
    ConfigError,
    DivergedError,
    UnavailableError,
    WorkloadError,
)
from fedcore.measured import Device, Measured
from fedcore.memory import give_back
from fedcore.model import FlatModel, Metrics
from fedcore.participant import (
    Outcome,
    OutdatedError,
    Participant,
    WrongModelError,
    may_use,
    start_ahead,
)
from fedcore.protocol import Ack, Answer, ModelName, Plan, Reply, Verdict
from fedcore.text import format_metrics
from fedcore.training import Trainer, evaluate_own
from fedcore.typing import Seconds, State, Vector
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload

_log = logging.getLogger("fedclient")
AGAIN: Seconds = 5.0  # until a message that has no place now is sent again
BESIDE = 420  # bytes that an update takes beside its payloads, in both directions


class Worker:
    """Trains on one client's data as long as the run goes on."""

    def __init__(
        self,
        member: Membership,
        workload: Workload,
        model: FlatModel,
        client: Client,
        *,
        updates: int | None = None,
        pace: Pace = AT_ONCE,
        gate: Gate = ALWAYS,
    ) -> None:
        """Prepares a worker; sends nothing before :meth:`run`.

        Args:
            member: the client's place in the run.
            workload: the user's workload.
            model: the workload's model.
            client: the client on whose data the worker trains.
            updates: the number of accepted updates after which it leaves for good.
            pace: the minimum duration of each task, and which updates are not sent.
            gate: decides when tasks may begin.
        """
        self._member, self._workload, self._model = member, workload, model
        self._client = client
        self._updates, self._pace, self._gate = updates, pace, gate
        self._data: Any = None
        self._again = False  # whether the message in flight was sent before
        self._refreshed = self._flushed = False  # while leaving
        self._task: int | None = None
        self._device: Device | None = None  # at the request for this task
        self._core_watts: float | None = None  # in the last task that tells it
        self._plan: Plan | None = None
        self._ahead = Ahead()
        self._charged = 0  # bytes counted against the day's budget

    @property
    def _participant(self) -> Participant:
        return self._member.participant

    @property
    def _phases(self) -> Phases:
        return self._member.connection.phases

    def run(self) -> None:
        """Works until the run has ended, or ``updates`` were accepted.

        Raises:
            LatecomerError: the client cannot go on; the message says why.
        """
        try:
            self._gate.wait(only_network=True)
            self._enrol()
            self._take_turns()
        finally:
            self._ahead.stop()

    def _take_turns(self) -> None:
        while True:
            self._member.check_superseded()
            try:
                if self._turn():
                    return
            except UnavailableError as error:
                self._again = True
                self._member.patience.wait(error)
            except OutdatedError as error:
                self._member.begin_anew(error)
            except WrongModelError as error:
                self._member.save()
                _log.warning("%s; asking for the full model", error)

    def _enrol(self) -> None:
        member = self._member
        member.enrol()
        self._trainer = Trainer(
            self._workload,
            member.algorithm,
            model=self._model,
            share_labels=member.reply.share_labels,
        )
        require_valid_data(self._workload, member.algorithm)
        self._client = replace(self._client, name=member.name)
        self._plan = None  # the sharing of labels may have changed
        if member.algorithm.config.uses_energy and joules() is None:
            _log.warning("%s", NO_ENERGY)
        state = self._participant.state
        self._phases.begin(member.name, state.run_id)
        self._again = state.pending is not None
        _log.info(
            "joined run %s as %r; %d updates sent so far",
            state.run_id,
            member.name,
            state.seq,
        )

    def _turn(self) -> bool:
        """Exchanges one message with the server; returns True at the end."""
        self._rest()
        has_message = self._participant.state.pending is not None
        if not self._is_leaving and not self._gate.wait(
            self._withdraw, self._member.reappear, has_message, self._member.has_ended
        ):
            return True
        if has_message:
            self._push()
            return False
        return self.leave() if self._is_leaving else self._pull()

    def _rest(self) -> None:
        """Waits as long as the controllers require, unless the client leaves."""
        passed = self._member.connection.transferred.framed
        if passed > self._charged:
            report = Report(at=time.time(), nbytes=passed - self._charged)
            self._participant.observe(report)
        self._charged = passed
        wait = self._participant.rest(time.time(), BESIDE)
        if wait and not self._is_leaving:
            self._member.save()
            _log.info("the controllers let it rest for %.1f hours", wait / 3600)
            self._member.rest(wait)

    def _withdraw(self, why: str) -> None:
        self._ahead.stop()
        self._member.withdraw(why)

    @property
    def _is_leaving(self) -> bool:
        return self._updates is not None and self._accepted >= self._updates

    @property
    def _accepted(self) -> int:
        return self._participant.state.ledger.accepted

    # -------------------------------------------------------------------- pulls

    def _pull(self, *, work: bool = True) -> bool:
        self._device = self._look_at_device()
        answer = self._member.pull(
            self._device, self._describe_plan() if work else None
        )
        if isinstance(answer, Refusal):
            self._heed(answer)
            return False
        with self._phases.one("decode"):
            self._participant.receive(answer)
            self._member.save()
        if answer.done:
            self._ahead.stop()
            if work and answer.task is not None:
                self._evaluate_last()
            _log.info("the run has ended at version %d", answer.patch.version)
            return True
        self._member.note_pause(answer.reason)
        if answer.task is None:
            self._member.rest(answer.retry_after)
        elif work:
            self._work(answer)
        return False

    def _look_at_device(self) -> Device | None:
        """Returns the facts of this device now; None if nobody looks at them."""
        if not self._member.algorithm.config.uses_device:
            return None
        return this_device()._replace(core_watts=self._core_watts).clean()

    def _heed(self, refusal: Refusal) -> None:
        match refusal.answer:
            case Answer.UNKNOWN:
                self._enrol()
            case Answer.OBSOLETE:
                raise OutdatedError("this client has left the run")
            case _ if refusal.reason:
                rest = refusal.retry_after  # not a failure: the server has answered
                _log.info("no task: %s; asking again in %.1f s", refusal.reason, rest)
                self._member.rest(rest)
            case _:
                self._member.wait_for_room(refusal.retry_after)

    def _describe_plan(self) -> Plan | None:
        """Returns the plan by which the update filter decides whether to train."""
        if not self._member.algorithm.config.update_filter.rest:
            return None
        if self._plan is None:
            try:
                data = self._samples()
                with user_code("train_data"):
                    self._plan = self._trainer.plan(data)
            except WorkloadError:
                return None  # the task will raise it again, and reports it then
        return self._plan

    # ----------------------------------------------------------------- training

    def _work(self, reply: Reply) -> None:
        assert reply.task is not None
        began = time.monotonic()
        try:
            if reply.task.evaluate:
                with self._phases.one("evaluate"):
                    self._evaluate()
            if "public" in self._participant.wants:
                state = self._participant.state
                public, _ = self._metrics(state.public_D, state.kept)
                self._participant.observe(Report(at=time.time(), public=public))
            self._train(began)
        except WorkloadError as error:
            self._data = None  # read again: the data may be the reason
            self._member.confess(error)
        except ConfigError as error:  # the same in each task
            self._member.report_failure(error)
            raise
        else:
            self._member.failures = 0

    def _train(self, began: Seconds) -> None:
        self._give_back()
        participant, member, ahead = self._participant, self._member, None
        algorithm, state = participant.algorithm, participant.state
        data, before, trains = self._samples(), read_power(), time.monotonic()
        taken = self._ahead.result(lambda start: may_use(algorithm, state, start))
        if taken is not None:
            ahead, began = taken.trained, taken.began
            # The energy counter has counted other work since then.
            before, trains = Power(), time.monotonic() - taken.seconds
        with self._phases.one("compute"):
            trained, base, key = self._trainer.task(
                state, data, member.seed, self._client, ahead
            )
        stint = self._pace.of(self._tasks(participant.state.seq))
        with self._phases.one("pace"):
            time.sleep(max(0.0, began + stint.seconds - time.monotonic()))
        if stint.is_lost:
            return
        if self._device is not None:
            took, after = time.monotonic() - trains, read_power()
            energy, watts = after.joules_since(before), after.core_watts(before)
            self._core_watts = self._core_watts if watts is None else watts
            measured = Measured(trained.used, took, energy, self._device)
            trained = trained._replace(measured=measured)
        own = None
        if "own" in participant.wants:
            own, _ = self._metrics(participant.own_model(trained), trained.kept)
        with self._phases.one("encode"):
            participant.finish(trained, base, key)
            skipped, why = trained.skipped, trained.why
            del trained, ahead, taken  # the message contains their values
            participant.note_task(time.time(), own)
            member.save()
        self._give_back()
        self._again = False
        if participant.unusable:
            raise DivergedError(participant.unusable)
        if skipped:
            _log.warning("%d samples were left out: %s", skipped, why)
            member.connection.report_skipped(skipped, why)
        self._train_on()

    def _give_back(self) -> None:
        """Frees the memory of earlier models and messages, if they are large."""
        give_back(4 * self._model.spec.dim, cycles=True)

    def _train_on(self) -> None:
        """Takes the next task's steps while the message travels, if possible."""
        state, member = self._participant.state, self._member
        start = start_ahead(member.algorithm, state)
        trainer, client = self._trainer, self._client
        if start is None or state.pending is None or self._is_leaving:
            return
        if self._gate.unmet():
            return
        data = self._samples()
        self._ahead.begin(
            start,
            lambda goes_on: trainer.steps(state, data, member.seed, client, goes_on),
        )

    def _tasks(self, sent: int) -> int:
        """Returns the number of tasks so far; after a restart, that of updates sent."""
        self._task = sent if self._task is None else self._task + 1
        return self._task

    def _samples(self) -> Any:
        if self._data is None:
            with user_code("train_data"):
                self._data = self._workload.train_data(self._client)
        return self._data

    def _evaluate(self) -> None:
        """Evaluates the model on this client's own data, and reports the metrics."""
        state = self._participant.state
        if self._workload.valid_data is None:
            _log.warning("asked to evaluate, but the workload has no valid_data")
            return
        assert state.held is not None
        assert state.public_D is not None
        values, samples = self._metrics(state.public_D, state.kept)
        name = ModelName(state.held.epoch, state.held.version)
        self._member.connection.report(name, values, samples)
        _log.info("version %d: %s", name.version, format_metrics(values, samples))

    def _metrics(self, model_D: Vector | None, kept: State) -> tuple[Metrics, int]:
        """Returns the metrics of a model and its kept values on this client's data."""
        self._ahead.wait()  # the model computes one thing at a time
        valid_data, config = self._workload.valid_data, self._member.algorithm.config
        held = self._participant.state.held
        assert held is not None
        assert model_D is not None
        assert valid_data is not None
        with user_code("evaluation"):
            data = valid_data(self._client)
            return evaluate_own(
                self._model, config.client, model_D, held.version, kept, data
            )

    def _evaluate_last(self) -> None:
        """Evaluates the last version; a failure only leads to a warning."""
        try:
            try:
                self._evaluate()
            except WorkloadError as error:
                self._member.report_failure(error)
        except UnavailableError as error:  # it does not wait forever
            _log.warning("the last version's metrics were not sent: %s", error)

    # ------------------------------------------------------------------- pushes

    def _push(self) -> None:
        push, began = self._participant.push(), time.monotonic()
        ack = self._member.connection.push(push, again=self._again)
        if isinstance(ack.answer, Verdict) and not self._again:  # all of it was sent
            took = time.monotonic() - began
            self._participant.observe(Report(at=time.time(), upload_seconds=took))
        self._again = True
        with self._phases.one("settle"):
            try:
                outcome = self._participant.settle(ack)
            finally:
                self._member.save()
        self._follow(outcome, ack)

    def _follow(self, outcome: Outcome, ack: Ack) -> None:
        match outcome:
            case Outcome.SETTLED:
                self._member.patience.reset()
                log_verdict(ack)
            case Outcome.ENROL:
                self._enrol()
            case Outcome.PULL:
                self._pull(work=False)
            case _ if ack.reason:  # not a failure: the server has answered
                self._member.patience.reset()
                self._member.note_pause(ack.reason)
                self._member.rest(max(ack.retry_after, AGAIN))
            case _:
                self._member.wait_for_room(ack.retry_after)

    # -------------------------------------------------------------------- leave

    def leave(self) -> bool:
        """Leaves for good: sends the content of the error memory, and then leaves.

        It sends one message, based on the newest version; the part that the message
        cannot carry is counted as lost. Returns whether the client has left or the run
        has ended.
        """
        if not self._refreshed:
            ended = self._pull(work=False)
            self._refreshed = True
            return ended
        if not self._flushed and self._participant.flush():
            self._flushed = True
            self._member.save()
            return False  # its verdict comes first
        self._member.connection.leave()
        self._participant.leave()
        self._member.save()
        _log.info("left the run after %d updates", self._accepted)
        return True

    def leave_now(self) -> None:
        """Joins, and leaves for good at once."""
        state = self._member.store.load()
        if state is None or state.left:
            _log.info("nothing to do: no client of a run is in this state directory")
            return
        self._updates = 0
        self.run()
