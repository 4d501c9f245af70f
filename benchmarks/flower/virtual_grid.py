"""A Grid of Flower on a virtual clock, which calls a ClientApp in this process."""

import contextlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

Fate = Literal["fine", "lost", "twice", "error", "unavailable"]
RAISED, UNAVAILABLE = 2, 5  # Flower's codes
App = Callable[[Message, Context], Message]


class VirtualTime:
    """A clock that moves when somebody waits."""

    def __init__(self, start: float = 1_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """Returns the time."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Moves the virtual time on by so many seconds, and waits for nothing."""
        self._now += seconds


@dataclass
class _OnItsWay:
    at: float
    message: Message
    copies: int = 1


@dataclass
class VirtualGrid(Grid):  # type: ignore[misc]
    """Nodes that reply after a while.

    Attributes:
        app: the ClientApp of all nodes.
        clock: tells when a reply arrives.
        nodes: their ids.
        delay: seconds of a node's n-th message, from 0 on.
        fate: what becomes of it.
        config: the run_config.
        gone: nodes that have disconnected.
    """

    app: App
    clock: VirtualTime
    nodes: list[int]
    delay: Callable[[int, int], float] = lambda node, nth: 1.0
    fate: Callable[[int, int], Fate] = lambda node, nth: "fine"
    config: dict[str, Any] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    run_id: int = 1
    pushed: int = 0
    sent_bytes: int = 0
    got_bytes: int = 0

    def __post_init__(self) -> None:
        """Every node has a Context of its own, with nothing in it."""
        identify()
        self.contexts = {node: self._context(node) for node in self.nodes}
        self.counts = dict.fromkeys(self.nodes, 0)
        self.replied = dict.fromkeys(self.nodes, 0)  # whose replies were taken
        self.coming: dict[str, _OnItsWay] = {}
        self.calls: list[tuple[int, str]] = []

    def _context(self, node: int) -> Context:
        place = self.nodes.index(node)
        config = {"partition-id": place, "num-partitions": len(self.nodes)}
        return Context(1, node, config, RecordDict(), self.config)

    def forget(self) -> None:
        """Begins another run of Flower: no Context keeps its state."""
        self.contexts = {node: self._context(node) for node in self.nodes}
        self.coming.clear()
        self.run_id += 1

    def set_run(self, run: Any) -> None:
        """Does nothing: there is one run."""

    @property
    def run(self) -> Any:
        """Returns the run, which has an id."""
        return self

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Refuses; no strategy calls it, since all make a Message themselves."""
        raise NotImplementedError

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Sends messages, and moves the time on until all have replies."""
        ids = [*self.push_messages(messages)]
        replies: list[Message] = []
        end = self.clock.now() + (timeout or 1e9)
        while len(replies) < len(ids) and self.clock.now() < end:
            replies += self.pull_messages(ids)
            self.clock.sleep(0.1)
        return replies

    def get_node_ids(self) -> Iterable[int]:
        """Returns the nodes that are connected."""
        return [node for node in self.nodes if node not in self.gone]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Has the nodes compute their replies, which arrive later."""
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        self.pushed += 1
        number, node = f"message-{self.pushed}", message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = number
        message.metadata.__dict__["_src_node_id"] = 1
        self.sent_bytes += size(message.content)
        nth = self.counts[node]
        self.counts[node] += 1
        fate = self.fate(node, nth)
        at = self.clock.now() + self.delay(node, nth)
        if fate == "lost" or node in self.gone:
            return number
        if fate == "error":
            reply = Message(Error(RAISED, "ValueError: no luck"), reply_to=message)
        elif fate == "unavailable":
            reply = Message(Error(UNAVAILABLE, "not connected"), reply_to=message)
        else:
            reply = self._call(node, message)
        self.coming[number] = _OnItsWay(at, reply, 2 if fate == "twice" else 1)
        return number

    def _call(self, node: int, message: Message) -> Message:
        self.calls.append((node, message.metadata.message_type))
        travelled = Message(content=message.content, metadata=message.metadata)
        try:
            return self.app(travelled, self.contexts[node])
        except Exception as error:  # noqa: BLE001 -- Flower catches all of them, too
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(RAISED, reason), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Returns the replies that have arrived, in the order of their times."""
        known, now = set(message_ids), self.clock.now()
        due = [
            (coming.at, number)
            for number, coming in self.coming.items()
            if number in known and coming.at <= now
        ]
        found = []
        for _, number in sorted(due):
            coming = self.coming[number]
            self.replied[coming.message.metadata.src_node_id] += 1
            if coming.message.has_content():
                self.got_bytes += size(coming.message.content)
            found += [coming.message] * coming.copies
            del self.coming[number]
        return found


def identify() -> None:
    """Names this process as a task of Flower, as newer versions of it do."""
    with contextlib.suppress(ImportError):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


def size(content: RecordDict) -> int:
    """Returns the bytes of what records hold."""
    total = 0
    for record in content.array_records.values():
        total += sum(len(array.data) for array in record.values())
    for record in content.config_records.values():
        total += sum(len(v) for v in record.values() if isinstance(v, bytes | str))
    return total


def jitter(seed: int) -> Callable[[int, int], float]:
    """Returns delays from a half to two seconds."""
    return lambda node, nth: random.Random(f"{seed} {node} {nth}").uniform(0.5, 2)
