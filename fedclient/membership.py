"""A client's membership in a run: enrolment, identity, and waiting for the server."""

import logging
import random
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedwire.connect import Address
from fedwire.keys import cid_of
from fedwire.v1 import federation_pb2 as pb
from fedwire.values import epoch_name

from fedclient.attendance import Attendance
from fedclient.choices import with_choices
from fedclient.connection import Connection, Refusal
from fedclient.store import ClientStore
from fedcore.algorithm import Algorithm
from fedcore.errors import (
    ConfigError,
    OtherRunError,
    RefusedError,
    UnavailableError,
    UserCodeError,
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
LONG_WHY = 256  # characters of why a client begins no task


@dataclass(frozen=True)
class Identity:
    """What a client tells the server about itself when it enrols."""

    role: pb.Role = pb.ROLE_TRAINER
    name: str = ""
    index: int = 0
    count: int = 1
    code: str = ""


@dataclass
class Patience:
    """Waits after failures: longer each time, with jitter, until a call works."""

    give_up: Seconds | None = None
    _wait: Seconds = FIRST_WAIT
    _since: Seconds | None = None  # the first failure in a row

    @property
    def is_waiting(self) -> bool:
        """Whether the last call failed."""
        return self._since is not None

    def reset(self) -> None:
        """Restarts the time until it gives up, since a call worked."""
        self._wait, self._since = FIRST_WAIT, None

    def wait(self, error: Exception, least: Seconds = 0.0) -> None:
        """Waits after a failure.

        Raises:
            UnavailableError: calls have failed for ``give_up`` seconds.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        failing = now - self._since
        if self.give_up is not None and failing >= self.give_up:
            raise UnavailableError(f"{error}; gave up after {failing:.0f} s") from error
        pause = max(least, random.uniform(0.5, 1.0) * self._wait)
        _log.info("%s; again in %.1f s", error, pause)
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        time.sleep(pause)


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
        self.connection = Connection(address, model.spec)
        self.store = store
        self.patience = Patience(give_up)
        self.failures = 0  # of the user's code in a row
        self._model, self._identity = model, identity
        self._checkpoint, self._choices = checkpoint, choices
        self._attendance: Attendance | None = None
        self._superseded: str | None = None
        self._pause = ""  # why the server gives no tasks, as it said last
        self._cid = ""  # the id under which it enrolled last

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
            device: where a controller of the run looks at it.
            plan: where the update filter of the run judges tasks by it.

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
        self._attendance = Attendance(
            self.connection, self.reply.heartbeat, lambda text: self._hear(cid, text)
        )

    def _hear(self, cid: str, text: str) -> None:
        """Notes that another process took this one's place, but not this one itself."""
        if cid == self._cid:
            self._on_superseded(text)

    def _on_superseded(self, text: str) -> None:
        self._superseded = text

    def withdraw(self, why: str) -> None:
        """Tells the server why this client begins no task, and disconnects."""
        if self._attendance is not None:
            self._attendance.close(printable(why)[:LONG_WHY])
            self._attendance = None
        self.connection.close()

    def has_ended(self, why: str) -> bool:
        """Returns whether the server says that the run has ended, while this one waits.

        Connects for this one question. An older server does not tell, and one that does
        not answer now is asked again later.

        Args:
            why: this client begins no task.

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
        """Connects again, and shows the server that the client is there."""
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
        """Logs, once, why the server gives no task, and later that it gives them again.

        Args:
            reason: what the newest answer said; empty: nothing.
        """
        if reason != self._pause:
            again = "the server gives tasks again"
            _log.info("%s", f"waiting: {reason}" if reason else again)
        self._pause = reason

    def begin_anew(self, why: Exception) -> None:
        """Forgets the state on this disk, and joins as a new client."""
        _log.warning("%s; joining again", why)
        self.store.forget()
        self.enrol()

    def confess(self, error: UserCodeError) -> None:
        """Reports to the server that the user's code raised, and waits a while.

        Raises:
            UserCodeError: it raised too often in a row.
        """
        self.failures += 1
        self.report_failure(error)
        if self.failures >= MOST_FAILURES:
            raise UserCodeError(
                f"{self.failures} times in a row: {error}"
            ) from error.__cause__
        time.sleep(min(AFTER_FAILURE * 2**self.failures, LONGEST_WAIT))

    def report_failure(self, error: UserCodeError) -> None:
        """Tells the server that the user's code raised."""
        text = last_words(error)
        _log.error("%s\n%s", error, text)
        self.connection.report_failure(printable(text, lines=True))

    def save(self) -> None:
        """Makes the state durable; to be called before anything is sent."""
        state = self.participant.state
        self.store.save(state)
        # A message keeps its number until its verdict; then comes the next one.
        note_ids(seq=state.seq + (state.pending is None))

    def close(self) -> None:
        """Ends the session; the state stays on disk."""
        if self._attendance is not None:
            self._attendance.close()
            _log.info("bytes of this session: %s", self.connection.transferred)
        self.connection.close()
        self.store.close()


def read_algorithm(text: str, spec: ParamSpec, choices: Mapping[str, Any]) -> Algorithm:
    """Returns the algorithm that a server told, with this client's choices.

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
    """Returns version 0, from the client's file or made from the run's seed."""
    if checkpoint is None:
        return initial_model(model, seed)
    return warm_start(model, checkpoint)


def require_valid_data(workload: Workload, algorithm: Algorithm) -> None:
    """Checks that a client has data to evaluate on, where its algorithm needs them.

    Raises:
        WorkloadError: it has none.
    """
    if algorithm.config.clients_evaluate and not workload.valid_data:
        raise WorkloadError(
            "a controller of this run compares models on the client's own data: "
            "the workload needs valid_data="
        )
