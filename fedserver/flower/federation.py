"""Drives a coordinator over Flower's Grid: one loop, one thread.

The loop pulls the replies that have come, feeds them as events, makes the records
durable, and only then sends the tasks that follow from them. A node that has replied
gets its next task at once. Nothing here decides anything on updates: that is the
coordinator's part, as in the gRPC server.

A reply that comes twice counts once, since its message is answered by then; a reply
that comes late still counts, since no message is forgotten.
"""

import heapq
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

from fedcore.coordinator.actions import (
    Action,
    Finish,
    Persist,
    Refuse,
    SendAck,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientFailed,
    ClientLeft,
    ClientLost,
    ClientPulled,
    Event,
    ModelEvaluated,
    Timer,
    TimerFired,
    UpdatePushed,
)
from fedcore.coordinator.records import ServerStarted, ServerStopped
from fedcore.errors import ProtocolError, UserCodeError, WorkloadError
from fedcore.params import content_digest
from fedcore.protocol import Answer, Patch, Reply, Verdict
from fedcore.text import printable
from fedcore.typing import Seconds, Vector
from fedrun.commit import GroupCommit
from fedrun.flower.messages import as_numbers
from fedrun.run import Run, fresh_name
from fedserver.children import EVALUATOR
from fedserver.clock import Clock
from fedserver.flower.nodes import Node, Post, Sent
from fedserver.flower.results import Metrics

_log = logging.getLogger("flwr.latecomer")  # Flower shows what is logged below its name
Message = Any  # of flwr
LOOK: Seconds = 3.0  # between two questions which nodes are there
SHORTEST, LONGEST = 0.02, 0.5  # pauses of a loop in which nothing happens, in seconds
LONGEST_REST: Seconds = 60.0  # of a node whose code has failed
MOST_FAILURES = 5  # of one node in a row
_UNAVAILABLE = 5  # Flower's code of an error: the node is not connected
SERVER_APP = "serverapp"  # the cid under which the ServerApp evaluates


class Time(Protocol):
    """The clock of a federation."""

    def now(self) -> Seconds:
        """Returns the time of the run."""

    def sleep(self, seconds: Seconds) -> None:
        """Waits."""


class WallTime:
    """The wall clock, from the last moment of a run on."""

    def __init__(self, start: Seconds) -> None:
        self.now = Clock(start).now
        self.sleep = time.sleep


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the ServerApp wants beside the recipe."""

    evaluate: Callable[[int, Vector], Mapping[str, float] | None] | None = None
    """Evaluates a version at the server."""
    every: int = 1
    """The distance in versions between two evaluations."""
    patience: Seconds = 3600.0
    """How long to wait without a single reply."""


@dataclass(order=True)
class _Alarm:
    at: Seconds
    number: int
    timer: Timer = field(compare=False)


class Federation:
    """The nodes of one Flower run, and the coordinator of ours."""

    def __init__(
        self,
        run: Run,
        grid: Any,
        post: Post,
        metrics: Metrics,
        wishes: Wishes,
        clock: Time,
    ) -> None:
        """Nothing is sent yet.

        Args:
            run: on disk, with its coordinator.
            grid: of Flower.
            post: writes and reads messages.
            metrics: takes note of records.
            wishes: of the ServerApp.
            clock: tells the time, and waits.
        """
        self.run, self._grid, self._post = run, grid, post
        self._wishes, self._clock = wishes, clock
        self._group = GroupCommit(run, metrics.note)
        self._life = content_digest(run.run_id.encode() + fresh_name().encode())
        self._nodes: dict[int, Node] = {}
        self._by_cid: dict[str, Node] = {}
        self._sent: dict[str, Sent] = {}  # by Flower's id of the message
        self._alarms: list[_Alarm] = []
        self._due: list[tuple[int, Vector]] = []  # versions to be evaluated
        self._seen = -1  # the newest version that was looked at
        self._looked = -math.inf
        self._heard = clock.now()
        self._said = ""  # what the last failed node said
        self.ended: str | None = None

    @property
    def _state(self) -> Any:
        return self.run.coordinator.state

    # ------------------------------------------------------------------ the loop

    def execute(self) -> None:
        """Runs until the run has ended, or until no reply comes any more.

        Raises:
            UserCodeError: every node failed again and again.
            DiskError: the journal cannot be written; nothing rests on what is lost.
        """
        self.run.journal.append([ServerStarted(at=self._clock.now())])
        self._open()
        pause = SHORTEST
        while not self._is_over():
            moved = self._look() | self._receive() | self._fire() | self._wake()
            self._release()
            if self._evaluate_due() or moved:
                pause = SHORTEST
                continue
            self._clock.sleep(pause)
            pause = min(LONGEST, 2 * pause)
        self.run.journal.append([ServerStopped(at=self._clock.now())])
        self._group.commit(lazy_too=True)
        self._group.finish()

    def _open(self) -> None:
        """Says goodbye to the nodes of earlier runs of Flower, whose state is gone."""
        self._release()
        for row in list(self._state.clients.values()):
            if row.role == "trainer" and not row.left:
                self._feed(ClientLeft(at=self._clock.now(), cid=row.cid))
        if self._wishes.evaluate is not None:
            self._feed(
                ClientEnrolled(
                    at=self._clock.now(),
                    cid=SERVER_APP,
                    name=EVALUATOR,
                    role="evaluator",
                )
            )
        self._note_version()
        self._release()
        self._evaluate_due()

    def _is_over(self) -> bool:
        silent = self._clock.now() - self._heard
        if self.ended is not None or self._state.closed:
            waits = any(sent.kind == "evaluate" for sent in self._sent.values())
            return not waits or silent > self.run.config.timeouts.linger
        if silent > self._wishes.patience:
            there = sum(node.is_there for node in self._nodes.values())
            _log.warning(
                "no node has replied for %g seconds (%d are connected): the run stops "
                "at version %d, and goes on from there with the same journal",
                self._wishes.patience,
                there,
                self._state.version,
            )
            return True
        nodes = [node for node in self._nodes.values() if node.is_there]
        if nodes and all(node.rests_until == math.inf for node in nodes):
            raise UserCodeError(
                f"every node failed {MOST_FAILURES} times in a row; the last one said: "
                f"{self._said}"
            )
        return False

    def _feed(self, event: Event) -> None:
        self._group.feed(event)
        self._note_version()

    def _note_version(self) -> None:
        """Keeps the model of a version that is to be evaluated at the server."""
        state = self._state
        if state.version == self._seen or self._wishes.evaluate is None:
            return
        self._seen = version = state.version
        is_last = version == self.run.config.stop.versions
        is_known = state.evaluated is not None and state.evaluated >= version
        if (version % self._wishes.every == 0 or is_last) and not is_known:
            self._due.append((version, state.published.public_D))

    def _evaluate_due(self) -> bool:
        """Evaluates the versions that are due; says whether there was one."""
        due, self._due = self._due, []
        for version, model_D in due:
            assert self._wishes.evaluate is not None
            values = self._wishes.evaluate(version, model_D)
            if values is None:
                continue
            _log.info("version %d, at the server: %s", version, dict(values))
            self._feed(
                ModelEvaluated(
                    at=self._clock.now(),
                    cid=SERVER_APP,
                    version=version,
                    values=as_numbers(values),
                    samples=0,
                )
            )
        if due:
            self._release()
        return bool(due)

    # --------------------------------------------------------------------- nodes

    def _look(self) -> bool:
        """Asks which nodes are there; says whether that has changed."""
        now = self._clock.now()
        if now - self._looked < LOOK:
            return False
        self._looked, moved = now, False
        there = set(self._grid.get_node_ids())
        for number in sorted(there):
            node = self._nodes.get(number)
            if node is None:
                self._nodes[number] = node = Node(number, "")
                self._enrol(node)
                moved = True
            elif not node.is_there:
                node.is_there, node.sent, moved = True, None, True
                self._ask(node)
        for node in self._nodes.values():
            late = node.sent is not None and now - node.sent.at > self._wishes.patience
            if node.is_there and (node.number not in there or late):
                node.is_there, moved = False, True
                self._feed(ClientLost(at=now, cid=node.cid))
        return moved

    def _enrol(self, node: Node, place: tuple[int, int] = (0, 1)) -> None:
        """A node takes part under a new id, and asks for a task."""
        word = f"{self._life} {node.number} {node.life}"
        node.cid, node.pull = content_digest(word.encode())[:32], None
        self._by_cid[node.cid] = node
        self._place(node, place)
        self._ask(node)

    def _place(self, node: Node, place: tuple[int, int]) -> None:
        index, count = place
        self._feed(
            ClientEnrolled(
                at=self._clock.now(),
                cid=node.cid,
                name=node.name,
                index=index,
                count=count,
            )
        )

    def _start_again(self, node: Node) -> None:
        """A node has lost what it kept: from now on it is another client."""
        self._feed(ClientLeft(at=self._clock.now(), cid=node.cid))
        node.life += 1
        self._enrol(node, self._state.clients[node.cid].place)

    def _ask(self, node: Node) -> None:
        """A node that is free asks for the model and for a task."""
        node.rests_until = None
        pull = node.asks(self._state.epoch)
        now = self._clock.now()
        self._feed(ClientPulled(at=now, pull=pull, fresh_epoch=fresh_name()))

    def _wake(self) -> bool:
        """Lets nodes ask again that have rested after a failure."""
        now, moved = self._clock.now(), False
        for node in self._nodes.values():
            if node.rests_until is not None and node.rests_until <= now:
                self._ask(node)
                moved = True
        return moved

    def _fail(self, node: Node, error: str) -> None:
        """A node has no update; it rests the longer, the more often that happens."""
        node.failures += 1
        self._said = f"{node.name}: {error}"
        _log.warning("%s has no update: %s", node.name, error)
        self._feed(ClientFailed(at=self._clock.now(), cid=node.cid, error=error))
        if node.failures >= MOST_FAILURES:
            _log.warning("%s gets no more tasks", node.name)
            node.rests_until = math.inf
            return
        rest = min(LONGEST_REST, 2.0 ** (node.failures - 1))
        node.rests_until = self._clock.now() + rest

    # ------------------------------------------------------------------- replies

    def _receive(self) -> bool:
        """Feeds all replies that have come; says whether there was one."""
        if not self._sent:
            return False
        replies = list(self._grid.pull_messages(list(self._sent)))
        for reply in replies:
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is None:
                continue  # a copy of a reply that was taken before
            self._heard = self._clock.now()
            is_awaited = sent.node.sent is sent
            if is_awaited:
                sent.node.sent = None
            self._take(sent, reply, is_awaited=is_awaited)
        return bool(replies)

    def _take(self, sent: Sent, reply: Message, *, is_awaited: bool) -> None:
        node = sent.node
        if reply.has_error():
            self._take_error(sent, reply.error)
            return
        try:
            answer = self._post.answer(reply)
            node.has_mod = answer is not None
            if answer is None:
                push = None
                if sent.kind == "train":
                    seq = self._state.clients[sent.cid].seq
                    push = self._post.push(sent, reply, seq)
            elif answer.cid == node.cid and self._take_state(node, answer):
                push = answer.push
            else:
                return
        except (WorkloadError, ProtocolError) as error:
            self._fail(node, str(error))
            return
        if sent.kind == "evaluate":
            self._take_evaluation(sent, reply)
            return
        if push is not None:
            self._feed(UpdatePushed(at=self._clock.now(), push=push))
        node.failures = 0
        if is_awaited and node.is_there:
            self._ask(node)

    def _take_error(self, sent: Sent, error: Any) -> None:
        node, reason = sent.node, _brief(error.reason)
        node.pull = node.has_mod = None  # what it keeps may be gone
        if error.code == _UNAVAILABLE:
            self._feed(ClientLost(at=self._clock.now(), cid=node.cid))
            node.rests_until = self._clock.now() + LOOK
        elif sent.kind == "evaluate":
            _log.warning("%s evaluates no more: %s", node.name, reason)
            node.evaluates = False
            self._train_after(sent, sent.reply)
        else:
            self._fail(node, reason)

    def _take_state(self, node: Node, answer: Any) -> bool:
        """Takes what a mod says of its node; says whether it did its task."""
        if answer.pull is None:
            self._fail(node, answer.fault)
            self._start_again(node)
            return False
        node.pull = answer.pull
        row = self._state.clients[node.cid]
        if row.place != answer.place and answer.push is not None:
            self._place(node, answer.place)
        if answer.fault:
            self._fail(node, answer.fault)
            return False
        return True

    def _take_evaluation(self, sent: Sent, reply: Message) -> None:
        node, patch = sent.node, sent.reply.patch
        try:
            values, samples = self._post.evaluated(reply, node.name)
        except WorkloadError as error:
            _log.warning("%s evaluates no more: %s", node.name, error)
            node.evaluates = False
        else:
            self._feed(
                ModelEvaluated(
                    at=self._clock.now(),
                    cid=node.cid,
                    version=patch.version,
                    values=values,
                    samples=samples,
                )
            )
        answer = sent.reply
        if node.pull is not None:  # it holds this version now, and knows its verdict
            held = Patch(
                kind="none",
                epoch=patch.epoch,
                start=patch.version,
                version=patch.version,
                digest=patch.digest,
            )
            answer = replace(answer, patch=held, receipt=None)
        self._train_after(sent, answer)

    def _train_after(self, sent: Sent, reply: Reply) -> None:
        """Sends the task for which a node has just evaluated the model."""
        if reply.task is not None and reply.task.kind == "train" and not reply.done:
            self._send(sent.node, "train", reply)

    # ------------------------------------------------------------------- actions

    def _release(self) -> None:
        """Makes the records durable, and carries out what follows from them."""
        while actions := self._group.commit():
            for action in actions:
                self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case SendReply():
                node = self._by_cid[action.cid]
                if node.cid == action.cid:
                    self._offer(node, action.reply)
            case SendAck():
                self._tell(self._by_cid[action.cid], action)
            case SetTimer():
                if action.timer.kind != "hold":  # no connection waits
                    alarm = _Alarm(action.at, len(self._alarms), action.timer)
                    heapq.heappush(self._alarms, alarm)
            case Finish():
                self.ended = action.reason
                _log.info("the run has ended: %s", action.reason)
            case Refuse():
                if action.cid in self._by_cid:
                    self._refused(self._by_cid[action.cid], action)
            case Persist() | StartTask():
                raise AssertionError("records are durable, and every node pulls")
            case _:
                assert_never(action)

    def _offer(self, node: Node, reply: Reply) -> None:
        task = reply.task
        if task is None:
            return  # the run has ended
        if task.kind == "evaluate" or (task.evaluate and node.evaluates):
            if node.evaluates:
                self._send(node, "evaluate", reply)
            return
        self._send(node, "train", reply)

    def _send(self, node: Node, kind: str, reply: Reply) -> None:
        """Pushes a message; a node that cannot get it rests."""
        message, base_D = self._post.write(node, kind, reply)
        ids = list(self._grid.push_messages([message]))
        if not ids or not ids[0]:
            self._feed(ClientLost(at=self._clock.now(), cid=node.cid))
            node.rests_until = self._clock.now() + LOOK
            return
        now = self._clock.now()
        node.sent = Sent(node, node.cid, kind, reply, base_D, now)
        self._sent[ids[0]] = node.sent

    def _tell(self, node: Node, action: SendAck) -> None:
        ack = action.ack
        if ack.answer is Answer.OBSOLETE and node.cid == action.cid:
            self._start_again(node)
        elif ack.answer is not Verdict.ACCEPTED:
            _log.warning(
                "an update of %s is %s: %s", node.name, ack.answer.value, ack.reason
            )

    def _refused(self, node: Node, refusal: Refuse) -> None:
        if refusal.retry_after:
            node.rests_until = self._clock.now() + refusal.retry_after
        elif node.cid == refusal.cid:
            self._start_again(node)

    def _fire(self) -> bool:
        """Fires the timers that are due; says whether there was one."""
        now, moved = self._clock.now(), False
        while self._alarms and self._alarms[0].at <= now:
            timer = heapq.heappop(self._alarms).timer
            if not self.run.coordinator.rounds.is_void(timer):
                self._feed(TimerFired(at=now, timer=timer))
                moved = True
        return moved


def _brief(reason: str) -> str:
    """The last line of what an app raised, as printable text."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return printable(lines[-1] if lines else "it gave no reason")
