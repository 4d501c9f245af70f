"""A client's membership in a run: enrolment, identity, and waiting for the server."""

import logging
import math
import random
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedwire.connect import Address
from fedwire.convert import epoch_name
from fedwire.keys import cid_of
from fedwire.v1 import federation_pb2 as pb

from fedclient.state.store import ClientStore
from fedclient.wire.attendance import Attendance
from fedclient.wire.connection import Connection, Refusal
from fedclient.work.choices import with_choices
from fedcore.algorithm import Algorithm
from fedcore.errors import (
    ConfigError,
    LatecomerError,
    OtherRunError,
    RefusedError,
    StateError,
    UnavailableError,
    WorkloadError,
)
from fedcore.measured import Device
from fedcore.model import FlatModel
from fedcore.params import ParamSpec
from fedcore.participant import Participant, ParticipantState
from fedcore.protocol import Answer, Plan, Reply
from fedcore.text import printable
from fedcore.training import initial_model
from fedcore.typing import Seconds, Vector
from fedcore.user_code import AFTER_FAILURE, MOST_FAILURES, last_words
from fedcore.workload import Workload
from fedrun.config.load import parse_algorithm
from fedrun.files import warm_start
from fedrun.json_lines import note_ids

_log = logging.getLogger("fedclient")
FIRST_WAIT: Seconds = 1.0
LONGEST_WAIT: Seconds = 60.0
# Before the first answer, clients that start together do not wait for one another.
FIRST_CONTACT_WAIT: Seconds = 0.2
LONGEST_CONTACT_WAIT: Seconds = 5.0
CONTACT: Seconds = 60.0  # of failures; then it waits like everybody
LEAST_CALL: Seconds = 3.0  # minimum time for a call although the time is nearly over
LONG_WHY = 256  # characters of why a client begins no task


@dataclass(frozen=True)
class Identity:
    """The facts that a client sends to the server when it enrols."""

    role: pb.Role = pb.ROLE_TRAINER
    name: str = ""
    index: int = 0
    count: int = 1
    code: str = ""


@dataclass
class Patience:
    """Waits after failures: longer each time, with jitter, until a call works.

    As long as no call has worked, the waits begin shorter and stay short for a minute.
    """

    give_up: Seconds | None = None
    _wait: Seconds = FIRST_CONTACT_WAIT
    _had_contact: bool = False
    _since: Seconds | None = None  # when the first call in a row that failed began
    _began: Seconds | None = None  # of the current call, unless it may be held

    @property
    def is_waiting(self) -> bool:
        """Whether the last call failed."""
        return self._since is not None

    def reset(self) -> None:
        """Resets the time until it gives up, because a call has worked."""
        self._wait, self._since, self._had_contact = FIRST_WAIT, None, True
        self._began = None

    def begin(self, held: bool) -> Seconds:
        """Notes that a call begins; returns its maximum duration.

        Args:
            held: whether the server may hold the call, or the call carries a model. A
                failure then counts from its own time on, and the time that earlier
                failures left only limits the time to connect.
        """
        now = time.monotonic()
        self._began = None if held else now
        if self.give_up is None or (held and self._since is None):
            return math.inf
        since = now if self._since is None else self._since
        return max(LEAST_CALL, since + self.give_up - now)

    def wait(self, error: Exception, least: Seconds = 0.0) -> None:
        """Waits after a failure.

        Raises:
            UnavailableError: calls have failed for ``give_up`` seconds.
        """
        time.sleep(self.pause(error, least))

    def pause(self, error: Exception, least: Seconds = 0.0) -> Seconds:
        """Returns the time to wait after a failure.

        Raises:
            UnavailableError: calls have failed for ``give_up`` seconds.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now if self._began is None else self._began
        failing = now - self._since
        left = math.inf if self.give_up is None else self.give_up - failing
        if left <= 0:
            raise UnavailableError(f"{error}; gave up after {failing:.0f} s") from error
        pause = max(least, min(left, random.uniform(0.5, 1.0) * self._wait))
        _log.info("%s; again in %.1f s", error, pause)
        is_early = not self._had_contact and failing < CONTACT
        longest = LONGEST_CONTACT_WAIT if is_early else LONGEST_WAIT
        self._wait = min(2 * self._wait, longest)
        return pause


class Membership:
    """A connection, an identity on disk, and a place in the run."""

    def __init__(
        self,
        address: Address,
        model: FlatModel,
        store: ClientStore,
        identity: Identity,
        give_up: Seconds | None = None,
        checkpoint: Path | None = None,
        choices: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.connection = Connection(address, model.spec, room=store.spill.room)
        self.store = store
        self.patience = Patience(give_up)
        self.connection.begins = self.patience.begin
        self.failures = 0  # failures of the user's code in a row
        self._model, self._identity = model, identity
        self._checkpoint, self._choices = checkpoint, choices
        self._attendance: Attendance | None = None
        self._superseded: str | None = None
        self._is_over = threading.Event()  # the run, as a notice of the server said
        self._pause = ""  # the server's last reason for giving no tasks
        self._cid = ""  # the id of the last enrolment

    def enrol(self) -> None:
        """Joins the run under the id on disk or a new one; waits for the server."""
        state = self.store.load()
        key = self.store.key()
        if state is not None and (state.left or state.cid != cid_of(key)):
            if not state.left:
                _log.warning("the state is of a client without this key; joining again")
            self.store.forget()
            state, key = None, self.store.key()
        self.connection.key, self._cid = key, cid_of(key)
        reply = self._ask(state.run_id if state else "")
        if reply.gone:
            self.store.forget()
            self.enrol()
            return
        if reply.warning:
            _log.warning("%s", reply.warning)
        self.reply = reply
        self.name, self.seed = reply.name, reply.seed
        note_ids(run=reply.run_id, client=reply.name, cid=self._cid)
        self.store.set_name(self.name)
        self.algorithm = read_algorithm(
            reply.algorithm, self._model.spec, self._choices
        )
        if state is None:
            state = ParticipantState(cid_of(key), reply.run_id, epoch_name(reply.epoch))
        self.participant = Participant(self.algorithm, state)
        _require_fit(self.participant.state, self.algorithm.spec.dim)
        if state.held is None and state.epoch == epoch_name(reply.epoch):
            initial_D = read_version_0(self._checkpoint, self._model, self.seed)
            self.participant.derive(initial_D, reply.origin.hex())
        self.save()
        self._attend()

    def _ask(self, run_id: str) -> pb.EnrolReply:
        identity = self._identity
        while True:
            request = pb.EnrolRequest(
                key=self.connection.key,
                owner=self.store.owner(),
                name=identity.name or self.store.name() or "",
                role=identity.role,
                index=identity.index,
                count=identity.count,
                run_id=run_id,
                code=identity.code,
            )
            try:
                reply = self.connection.enrol(request)
            except UnavailableError as error:
                if isinstance(error, OtherRunError) and not self.patience.is_waiting:
                    _log.warning("%s; waiting for the run of this state", error)
                self.patience.wait(error)
                continue
            self.patience.reset()
            return reply

    def pull(
        self, device: Device | None = None, plan: Plan | None = None
    ) -> Reply | Refusal:
        """Asks for the model and for work, with proofs if the server wants them.

        Args:
            device: the device, if a controller of the run needs it.
            plan: the plan, if the run's update filter judges tasks by it.

        Raises:
            OutdatedError: the server does not accept the proofs.
        """
        pull = self.participant.pull(secrets.randbits(63), device, plan)
        answer = self.connection.pull(pull)
        self.patience.reset()
        if isinstance(answer, Refusal) and answer.answer is Answer.PROVE:
            _log.info("the server asks for proofs of what this client knows")
            self.participant.prove(pull.nonce)
            return self.pull(device, plan)
        return answer

    def _attend(self) -> None:
        if self._attendance is not None:
            self._attendance.close()
        cid = self._cid
        self._is_over.clear()  # an ended run may be continued
        self._attendance = Attendance(
            self.connection,
            self.reply.heartbeat,
            lambda notice: self._hear(cid, notice),
        )

    def _hear(self, cid: str, notice: pb.Notice) -> None:
        """Notes that the run has ended, or that another process took this one's place.

        The other process may be this process itself, under a new id.
        """
        if notice.kind == pb.Notice.KIND_ENDED:
            self._is_over.set()
        elif notice.kind == pb.Notice.KIND_SUPERSEDED and cid == self._cid:
            self._superseded = notice.text

    def rest(self, seconds: Seconds) -> None:
        """Waits before the next call, but only briefly once the run has ended.

        The next pull confirms the end.
        """
        if self._is_over.is_set():
            time.sleep(min(seconds, FIRST_WAIT))
        else:
            self._is_over.wait(seconds)

    def wait_for_room(self, least: Seconds) -> None:
        """Waits because the server has answered that it has no room now.

        Args:
            least: the wait that the server asks for.

        Raises:
            UnavailableError: the server has had no room for ``give_up`` seconds.
        """
        busy = UnavailableError("the server is busy")
        self.rest(self.patience.pause(busy, least))

    def withdraw(self, why: str) -> None:
        """Tells the server why this client begins no task, and disconnects."""
        if self._attendance is not None:
            self._attendance.close(printable(why)[:LONG_WHY])
            self._attendance = None
        self.connection.close()

    def has_ended(self, why: str) -> bool:
        """Returns whether the run has ended, while this client waits.

        It connects only for this question. An older server does not answer it; a server
        that cannot be reached now is asked again later.

        Args:
            why: the reason why this client begins no task.

        Raises:
            RefusedError: the operator has evicted this client.
        """
        self.connection.open()
        try:
            notice = self.connection.ask_while_waiting(printable(why)[:LONG_WHY])
        except UnavailableError as error:
            _log.debug("%s; asking again later whether the run has ended", error)
            return False
        finally:
            self.connection.close()
        if notice is not None and notice.kind == pb.Notice.KIND_SUPERSEDED:
            raise RefusedError(f"this client stops: {notice.text}")
        if notice is None or notice.kind != pb.Notice.KIND_ENDED:
            return False
        _log.info("the run has ended: %s", printable(notice.text))
        return True

    def reappear(self) -> None:
        """Connects again, and shows the server that the client is present."""
        self.connection.open()
        self._attend()

    def check_superseded(self) -> None:
        """Checks that no other process has taken this client's place.

        Raises:
            RefusedError: another process has.
        """
        if self._superseded is not None:
            raise RefusedError(f"this client stops: {self._superseded}")

    def note_pause(self, reason: str) -> None:
        """Logs once why the server gives no task or takes no update, and once its end.

        Args:
            reason: the reason in the newest answer; empty if there is none.
        """
        if reason != self._pause:
            again = "the server goes on"
            _log.info("%s", f"waiting: {reason}" if reason else again)
        self._pause = reason

    def begin_anew(self, why: Exception) -> None:
        """Drops the state on this disk, and joins as a new client."""
        _log.warning("%s; joining again", why)
        self.store.forget()
        self.enrol()

    def confess(self, error: WorkloadError) -> None:
        """Reports to the server that the user's code failed, and waits a while.

        Raises:
            WorkloadError: it failed too often in a row.
        """
        self.failures += 1
        self.report_failure(error)
        if self.failures >= MOST_FAILURES:
            kind, told = type(error), f"{self.failures} times in a row: {error}"
            raise kind(told) from error.__cause__
        self.rest(min(AFTER_FAILURE * 2**self.failures, LONGEST_WAIT))

    def report_failure(self, error: LatecomerError) -> None:
        """Tells the server why a task has failed."""
        text = last_words(error)
        _log.error("%s", error if error.__cause__ is None else f"{error}\n{text}")
        self.connection.report_failure(printable(text, lines=True))

    def save(self) -> None:
        """Makes the state durable; must be called before anything is sent."""
        state = self.participant.state = self.store.spilled(self.participant.state)
        self.store.save(state)
        # A message keeps its number until its verdict; then the next number follows.
        note_ids(seq=state.seq + (state.pending is None))

    def close(self) -> None:
        """Ends the session; the state stays on disk."""
        if self._attendance is not None:
            self._attendance.close()
            _log.info("bytes of this session: %s", self.connection.transferred)
        self.connection.close()
        self.store.close()


def _require_fit(state: ParticipantState, dim: int) -> None:
    """Checks that a client's kept vectors match the model that it trains.

    Raises:
        StateError: they are of another model.
    """
    kept = [state.public_D, state.memory_D]
    if state.pending is not None:
        kept.append(state.pending.residual_D)
    for kept_D in kept:
        if kept_D is not None and kept_D.shape != (dim,):
            raise StateError(
                f"the state of this client has {kept_D.size} values for a model of "
                f"{dim}: it is of another one; join again with another --state"
            )


def read_algorithm(text: str, spec: ParamSpec, choices: Mapping[str, Any]) -> Algorithm:
    """Returns the algorithm that a server sent, with this client's choices.

    Raises:
        RefusedError: this program does not know a part of it.
        ConfigError: the federation does not leave a choice to its clients.
    """
    try:
        config = parse_algorithm(text)
        algorithm = config.build(spec)
    except ConfigError as error:
        raise RefusedError(
            f"this client is too old for the federation's algorithm, or lacks a "
            f"method of it: {error} (install a newer latecomer, or the package of "
            "the method, or name its file with --methods)"
        ) from error
    return with_choices(config, choices).build(spec) if choices else algorithm


def read_version_0(checkpoint: Path | None, model: FlatModel, seed: int) -> Vector:
    """Returns version 0, read from the client's file or made from the run's seed."""
    if checkpoint is None:
        return initial_model(model, seed)
    return warm_start(model, checkpoint)


def require_valid_data(workload: Workload, algorithm: Algorithm) -> None:
    """Checks that a client has data to evaluate on, if its algorithm needs them."""
    if algorithm.config.clients_evaluate and not workload.valid_data:
        raise WorkloadError(
            "a controller of this run compares models on the client's own data: "
            "the workload needs valid_data="
        )
