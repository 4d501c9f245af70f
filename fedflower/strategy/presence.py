"""The presence of Flower's nodes, their clients, and their requests for tasks."""

import logging
import math
from collections.abc import Callable
from typing import Any

from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Departed,
    Event,
    Failed,
    Lost,
)
from fedcore.coordinator.state import ServerState
from fedcore.errors import UserCodeError
from fedcore.typing import Seconds
from fedflower.strategy.nodes import MOST_FAILURES, Ids, Node
from fedflower.strategy.timing import Time
from fedrun.run import fresh_name

_log = logging.getLogger("flwr.latecomer")  # Flower shows log lines below its name
LOOK: Seconds = 3.0  # time between two questions which nodes are connected


class Presence:
    """The nodes of one Flower run, as clients of ours."""

    def __init__(
        self,
        ids: Ids,
        grid: Any,
        state: ServerState,
        feed: Callable[[Event], None],
        clock: Time,
        patience: Seconds,
    ) -> None:
        """Begins without any node.

        Args:
            ids: the ids of nodes as clients.
            grid: Flower's Grid.
            state: the coordinator's state.
            feed: passes an event to the coordinator.
            clock: tells the time.
            patience: how long to wait for a node's reply.
        """
        self._ids, self._grid, self._state = ids, grid, state
        self._feed, self._clock, self._patience = feed, clock, patience
        self._nodes: dict[int, Node] = {}
        self._by_cid: dict[str, Node] = {}
        self._looked = -math.inf
        self._said = ""  # the error of the last failed node

    @property
    def there(self) -> list[Node]:
        """The nodes that are connected."""
        return [node for node in self._nodes.values() if node.is_there]

    def of(self, cid: str) -> Node | None:
        """Returns the node that is or was this client; None if not of this run."""
        return self._by_cid.get(cid)

    def part(self) -> None:
        """Ends the membership of nodes of earlier Flower runs, whose state is gone."""
        for row in list(self._state.clients.values()):
            if row.trains and not self._ids.has(row):
                self._feed(Departed(at=self._clock.now(), cid=row.cid))

    def look(self) -> bool:
        """Asks which nodes are connected; returns whether that has changed."""
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
                self.ask(node)
        for node in self._nodes.values():
            late = node.sent is not None and now - node.sent.at > self._patience
            if node.is_there and (node.number not in there or late):
                node.is_there, moved = False, True
                self._feed(Lost(at=now, cid=node.cid))
        return moved

    def wake(self) -> bool:
        """Lets rested nodes ask again; returns whether there was one."""
        now, moved = self._clock.now(), False
        for node in self.there:
            if node.rests_until is not None and node.rests_until <= now:
                self.ask(node)
                moved = True
        return moved

    def ask(self, node: Node) -> None:
        """Lets a free node ask for the model and for a task."""
        node.rests_until = None
        pull = node.asks(self._state.epoch)
        now = self._clock.now()
        self._feed(ClientPulled(at=now, pull=pull, fresh_epoch=fresh_name()))

    def _enrol(self, node: Node, place: tuple[int, int] = (0, 1)) -> None:
        """Enrols a node under a new id; the node asks for a task."""
        node.cid, node.pull = self._ids.free(node.number, self._state.clients), None
        self._by_cid[node.cid] = node
        self.place(node, place)
        self.ask(node)

    def place(self, node: Node, place: tuple[int, int]) -> None:
        """Notes a node's part of the data: index and count."""
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

    def start_again(self, node: Node) -> None:
        """Makes a node that has lost its state a new client."""
        self._feed(Departed(at=self._clock.now(), cid=node.cid))
        self._enrol(node, self._state.clients[node.cid].place)

    def miss(self, node: Node) -> None:
        """Notes that a message has not reached a node, which then rests for a while."""
        self._feed(Lost(at=self._clock.now(), cid=node.cid))
        node.rests_until = self._clock.now() + LOOK

    def fail(self, node: Node, error: str) -> None:
        """Notes that a node has no update; it rests longer each further time."""
        self._said = f"{node.name}: {error}"
        _log.warning("%s has no update: %s", node.name, error)
        self._feed(Failed(at=self._clock.now(), cid=node.cid, error=error))
        node.fail(self._clock.now())
        if node.rests_until == math.inf:
            _log.warning("%s gets no more tasks", node.name)

    def require_one(self) -> None:
        """Checks that at least one node still gets tasks.

        Raises:
            UserCodeError: none does; the message contains the error of the last one.
        """
        there = self.there
        if there and all(node.rests_until == math.inf for node in there):
            raise UserCodeError(
                f"every node failed {MOST_FAILURES} times in a row; the last one said: "
                f"{self._said}"
            )
