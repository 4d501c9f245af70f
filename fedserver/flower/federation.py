"""Drives a coordinator over Flower's Grid: one loop, one thread.

The loop pulls the replies that have come, feeds them as events, makes the records
durable, and only then sends the tasks that follow from them. A node that has replied
gets its next task at once. Nothing here decides anything on updates: that is the
coordinator's part, as in the gRPC server.

A reply that comes twice counts once, since its message is answered by then; a reply
that comes late still counts, since no message is forgotten.
"""

import logging
import math
from typing import Any, assert_never

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
    TimerFired,
    UpdatePushed,
)
from fedcore.coordinator.records import ServerStarted, ServerStopped
from fedcore.errors import ProtocolError, UserCodeError, WorkloadError
from fedcore.protocol import Answer, Reply, Verdict
from fedcore.typing import Seconds
from fedcore.user_code import user_code
from fedrun.commit import GroupCommit
from fedrun.run import Run, fresh_name
from fedserver.flower.central import Central, Wishes
from fedserver.flower.nodes import MOST_FAILURES, Ids, Node, Post, Sent, brief
from fedserver.flower.results import Metrics
from fedserver.flower.timing import Alarms, Time

_log = logging.getLogger("flwr.latecomer")  # Flower shows what is logged below its name
Message = Any  # of flwr
LOOK: Seconds = 3.0  # between two questions which nodes are there
SHORTEST, LONGEST = 0.02, 0.5  # pauses of a loop in which nothing happens, in seconds
_UNAVAILABLE = 5  # Flower's code of an error: the node is not connected


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
        self._ids = Ids(f"{run.run_id} {getattr(grid.run, 'run_id', 0)}")
        self._nodes: dict[int, Node] = {}
        self._by_cid: dict[str, Node] = {}
        self._sent: dict[str, Sent] = {}  # by Flower's id of the message
        self._alarms = Alarms()
        self._central = Central(self._state, wishes, run.config.stop.versions)
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
            moved = self._receive() | self._look() | self._fire() | self._wake()
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
            if row.trains and not self._ids.has(row):
                self._feed(ClientLeft(at=self._clock.now(), cid=row.cid))
        enrolled = self._central.enrolled(self._clock.now())
        if enrolled is not None:
            self._feed(enrolled)
        self._central.look()
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
        self._central.look()

    def _evaluate_due(self) -> bool:
        """Evaluates the versions that are due; says whether there was one."""
        evaluated = self._central.evaluate(self._clock.now)
        for event in evaluated:
            _log.info(
                "version %d, at the server: %s", event.version, dict(event.values)
            )
            self._feed(event)
        if evaluated:
            self._heard = self._clock.now()  # nobody has listened meanwhile
            self._release()
        return bool(evaluated)

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
        node.cid, node.pull = self._ids.free(node.number, self._state.clients), None
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
            rests = node.rests_until is not None and node.rests_until > now
            if node.is_there and node.rests_until is not None and not rests:
                self._ask(node)
                moved = True
        return moved

    def _fail(self, node: Node, error: str) -> None:
        """A node has no update; it rests the longer, the more often that happens."""
        self._said = f"{node.name}: {error}"
        _log.warning("%s has no update: %s", node.name, error)
        self._feed(ClientFailed(at=self._clock.now(), cid=node.cid, error=error))
        node.fail(self._clock.now())
        if node.rests_until == math.inf:
            _log.warning("%s gets no more tasks", node.name)

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
            if not (reply.has_error() and reply.error.code == _UNAVAILABLE):
                self._heard = self._clock.now()
            is_awaited = sent.node.sent is sent
            if is_awaited:
                sent.node.sent = None
            self._take(sent, reply, is_awaited=is_awaited)
        return bool(replies)

    def _take(self, sent: Sent, reply: Message, *, is_awaited: bool) -> None:
        node = sent.node
        if reply.has_error():
            node.pull = node.has_mod = None  # what it keeps may be gone
            if is_awaited:
                self._take_error(sent, reply.error)
            return
        try:
            answer = self._post.answer(reply)
            node.has_mod = answer is not None
            if answer is None:
                node.pull = push = None
                if sent.kind == "train":
                    seq = self._state.clients[sent.cid].seq
                    with user_code(f"reading what {node.name} returned"):
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
            if is_awaited:
                self._train_after(sent, self._post.held(node, sent.reply))
            return
        if push is not None:
            self._feed(UpdatePushed(at=self._clock.now(), push=push))
        node.failures = 0
        if is_awaited and node.is_there:
            self._ask(node)

    def _take_error(self, sent: Sent, error: Any) -> None:
        node, reason = sent.node, brief(error.reason)
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
        fault = brief(answer.fault)
        if answer.pull is None:
            self._fail(node, fault)
            if node.rests_until != math.inf:
                self._start_again(node)
            return False
        node.pull = answer.pull
        row = self._state.clients[node.cid]
        if row.place != answer.place and answer.push is not None:
            self._place(node, answer.place)
        if answer.fault:
            self._fail(node, fault)
            return False
        return True

    def _take_evaluation(self, sent: Sent, reply: Message) -> None:
        node, version = sent.node, sent.reply.patch.version
        try:
            with user_code(f"reading what {node.name} returned"):
                values, samples = self._post.evaluated(reply, node.name)
        except WorkloadError as error:
            _log.warning("%s evaluates no more: %s", node.name, error)
            node.evaluates = False
        else:
            self._feed(
                ModelEvaluated(
                    at=self._clock.now(),
                    cid=node.cid,
                    version=version,
                    values=values,
                    samples=samples,
                )
            )

    def _train_after(self, sent: Sent, reply: Reply) -> None:
        """Sends the task for which a node has just evaluated the model."""
        node, task = sent.node, reply.task
        if task is None or task.kind != "train" or reply.done or not node.is_there:
            return
        self._send(node, "train", reply)

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
                    self._alarms.set(action)
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
        if node.pull is None and reply.patch.kind != "full":
            self._ask(node)  # it may have lost its model since it asked
            return
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
        while (timer := self._alarms.due(now)) is not None:
            if not self.run.coordinator.rounds.is_void(timer):
                self._feed(TimerFired(at=now, timer=timer))
                moved = True
        return moved
