"""The messages to nodes of Flower, and the handling of their replies.

A reply that comes twice counts once, because its message is answered by then; a reply
that comes late still counts, because no message is forgotten.
"""

import logging
import math
from collections.abc import Callable
from typing import Any

from fedcore.coordinator.events import Evaluated, Event, UpdatePushed
from fedcore.coordinator.state import ServerState
from fedcore.errors import ProtocolError, WorkloadError
from fedcore.protocol import Push, Reply
from fedcore.typing import Seconds
from fedcore.user_code import user_code
from fedflower.app.messages import lacks_function
from fedflower.strategy.nodes import Node, Post, Sent, brief
from fedflower.strategy.presence import Presence
from fedflower.strategy.timing import Time

_log = logging.getLogger("flwr.latecomer")  # Flower shows log lines below its name
Message = Any  # flwr's type
_UNAVAILABLE = 5  # Flower's error code for a node that is not connected


class Replies:
    """The messages in flight, and the replies to them."""

    def __init__(
        self,
        presence: Presence,
        grid: Any,
        state: ServerState,
        post: Post,
        feed: Callable[[Event], None],
        clock: Time,
    ) -> None:
        """Begins without any message.

        Args:
            presence: the presence of the nodes.
            grid: Flower's Grid.
            state: the coordinator's state.
            post: writes and reads messages.
            feed: passes an event to the coordinator.
            clock: tells the time.
        """
        self._presence, self._grid, self._state = presence, grid, state
        self._post, self._feed, self._clock = post, feed, clock
        self._sent: dict[str, Sent] = {}  # by Flower's id of the message
        self._heard = clock.now()

    @property
    def silent(self) -> Seconds:
        """The time since the last reply of any node."""
        return self._clock.now() - self._heard

    @property
    def has_evaluations(self) -> bool:
        """Whether the reply to an evaluation is still missing."""
        return any(sent.kind == "evaluate" for sent in self._sent.values())

    def hear(self) -> None:
        """Restarts the count of silence: a reply has come or nobody has listened."""
        self._heard = self._clock.now()

    # -------------------------------------------------------------------- to nodes

    def offer(self, node: Node, reply: Reply) -> None:
        """Sends the coordinator's answer to a node's pull."""
        task = reply.task
        if task is None:
            return  # the run has ended
        if task.kind == "evaluate" or (task.evaluate and node.evaluates):
            if node.evaluates:
                self._send(node, "evaluate", reply)
            return
        self._send(node, "train", reply)

    def _send(self, node: Node, kind: str, reply: Reply) -> None:
        """Pushes a message; if the node cannot get it, the node rests."""
        if node.pull is None and reply.patch.kind != "full":
            self._presence.ask(node)  # it may have lost its model since it asked
            return
        message, base_D = self._post.write(node, kind, reply)
        ids = list(self._grid.push_messages([message]))
        if not ids or not ids[0]:
            self._presence.miss(node)
            return
        now = self._clock.now()
        node.sent = Sent(node, node.cid, kind, reply, base_D, now)
        self._sent[ids[0]] = node.sent

    def _train_after(self, sent: Sent, reply: Reply) -> None:
        """Sends the task whose model a node has just evaluated."""
        node, task = sent.node, reply.task
        if task is None or task.kind != "train" or reply.done or not node.is_there:
            return
        self._send(node, "train", reply)

    # ------------------------------------------------------------------ from nodes

    def receive(self) -> bool:
        """Feeds all replies that have come; returns whether there was one."""
        if not self._sent:
            return False
        replies = list(self._grid.pull_messages(list(self._sent)))
        for reply in replies:
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is None:
                continue  # a copy of an earlier reply
            if not (reply.has_error() and reply.error.code == _UNAVAILABLE):
                self.hear()
            is_awaited = sent.node.sent is sent
            if is_awaited:
                sent.node.sent = None
            self._take(sent, reply, is_awaited=is_awaited)
        return bool(replies)

    def _take(self, sent: Sent, reply: Message, *, is_awaited: bool) -> None:
        node = sent.node
        if reply.has_error():
            node.pull = node.has_mod = None  # its state may be gone
            if is_awaited:
                self._take_error(sent, reply.error)
            return
        try:
            is_done, push = self._read(sent, reply)
        except (WorkloadError, ProtocolError) as error:
            self._presence.fail(node, str(error))
            return
        if not is_done:
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
            self._presence.ask(node)

    def _read(self, sent: Sent, reply: Message) -> tuple[bool, Push | None]:
        """Returns whether a node did its task, and its update, if it has one.

        Raises:
            WorkloadError: the result is not an update.
            ProtocolError: the answer of its mod is not valid.
        """
        node = sent.node
        answer = self._post.answer(reply)
        node.has_mod = answer is not None
        if answer is not None:
            is_done = answer.cid == node.cid and self._take_state(node, answer)
            return is_done, answer.push
        node.pull = None
        if sent.kind != "train":
            return True, None
        seq = self._state.clients[sent.cid].seq
        with user_code(f"reading what {node.name} returned"):
            return True, self._post.push(sent, reply, seq)

    def _take_error(self, sent: Sent, error: Any) -> None:
        node, reason = sent.node, brief(error.reason)
        if error.code == _UNAVAILABLE:
            self._presence.miss(node)
        elif sent.kind == "evaluate":
            self._fail_evaluation(sent, reason)
            self._train_after(sent, sent.reply)
        else:
            self._presence.fail(node, reason)

    def _take_state(self, node: Node, answer: Any) -> bool:
        """Applies a mod's report about its node; returns whether the task was done."""
        fault = brief(answer.fault)
        if answer.pull is None:
            self._presence.fail(node, fault)
            if node.rests_until != math.inf:
                self._presence.start_again(node)
            return False
        node.pull = answer.pull
        row = self._state.clients[node.cid]
        if row.place != answer.place and answer.push is not None:
            self._presence.place(node, answer.place)
        if answer.fault:
            self._presence.fail(node, fault)
            return False
        return True

    def _take_evaluation(self, sent: Sent, reply: Message) -> None:
        node, version = sent.node, sent.reply.patch.version
        try:
            with user_code(f"reading what {node.name} returned"):
                values, samples = self._post.evaluated(reply, node.name)
        except WorkloadError as error:
            self._fail_evaluation(sent, str(error))
            return
        node.failed_evaluations = 0
        self._feed(
            Evaluated(
                at=self._clock.now(),
                cid=node.cid,
                version=version,
                values=values,
                samples=samples,
            )
        )

    def _fail_evaluation(self, sent: Sent, reason: str) -> None:
        """Notes that a node has no metrics of a version; of later ones it may have."""
        node = sent.node
        node.fail_evaluation(for_good=lacks_function("evaluate", reason))
        if not node.evaluates:
            _log.warning("%s evaluates no more: %s", node.name, reason)
        elif node.failed_evaluations == 1:
            _log.warning(
                "%s has no metrics of version %d, and will be asked for those of later "
                "ones: %s",
                node.name,
                sent.reply.patch.version,
                reason,
            )
