"""The loop that executes the events of stacked clients, in the order of time.

It merges four queues: the events of clients, the verdicts that they hear, the ends of
leases, and the timers of the world. Updates that arrive in a row, with nothing else
between them, are handled together.
"""

from collections.abc import Callable, Sequence
from heapq import heappop
from typing import Protocol

from fedcore.coordinator import Rounds
from fedcore.typing import Seconds
from fedsim.engines.fates import ARRIVES, READY
from fedsim.engines.stacked.event_queue import NEVER, EventQueue
from fedsim.engines.stacked.messages import Messages
from fedsim.snapshots import Snapshots
from fedsim.world import Alarm, World

Handler = Callable[[int], None]


class Clients(Protocol):
    """The clients, as the loop sees them."""

    def deliver(self, who: int, at: Seconds) -> bool | None:
        """Takes a client's message that arrives for the first time.

        Returns:
            Whether the server must decide now; None if the update cannot be used.
        """

    def decide(self) -> None:
        """Lets the server decide on all updates that have arrived."""

    def hear_and_wait(self, who: int) -> None:
        """Tells a client the verdict at a time when no client can get a task."""

    def proceed(self) -> None:
        """Makes the version that is due, and starts clients that may train now."""


class EventLoop:
    """A loop that handles events until a run is over."""

    def __init__(
        self,
        world: World,
        queue: EventQueue,
        names: Sequence[str],
        handlers: Sequence[Handler],
        clients: Clients,
        messages: Messages,
        snapshots: Snapshots,
        *,
        in_rows: bool,
    ) -> None:
        """Prepares the loop without handling an event.

        Args:
            world: provides the clock, timers and interrupts.
            queue: the events of clients.
            names: the names of the clients.
            handlers: a handler for each kind of event.
            clients: the clients.
            messages: the messages of the clients.
            snapshots: are taken between two events.
            in_rows: whether updates may be handled in rows, because the events of one
                client do not depend on when another one hears its verdict.
        """
        self._world, self._clock, self._names = world, world.clock, names
        self._queue, self._handlers, self._clients = queue, handlers, clients
        self._messages, self._snapshots = messages, snapshots
        self._rounds: Rounds = world.run.coordinator.rounds
        self._in_rows = in_rows

    def run(self, is_over: Callable[[], bool]) -> None:
        """Handles events until the run is over, or no event is left."""
        world, clock, queue = self._world, self._clock, self._queue
        interrupts, snapshots = world.interrupts, self._snapshots
        events, acks, expiries = queue.events, queue.acks, queue.expiries
        others, handlers, lives = clock.queue, self._handlers, queue.life
        in_rows = self._in_rows
        while events or acks or others:
            wants_snapshot = interrupts.came or snapshots.due
            # No snapshot holds events that others will execute at this very moment.
            if wants_snapshot and (not others or others[0][0] > clock.now):
                snapshots.take()
                if interrupts.came:
                    return
            is_ack = bool(acks) and (not events or acks[0] < events[0])
            first = acks[0] if is_ack else events[0] if events else NEVER
            if (
                expiries
                and expiries[0] < first
                and (not others or expiries[0][:2] < others[0][:2])
            ):
                self._expire()
                continue
            if others and others[0][0] <= first[0] and others[0][:2] < first[:2]:
                alarm = others[0][2]
                is_void = isinstance(alarm, Alarm) and alarm.is_void
                if self._messages.wait and not is_void:
                    self._clients.decide()
                    continue
                what = clock.next()
                assert what is not None
                what()
            elif not in_rows or first[2] != ARRIVES or not self._arrive_in_a_row():
                when, _, kind, who, life = acks.popleft() if is_ack else heappop(events)
                if lives[who] == life:
                    clock.now = when
                    handlers[kind](who)
            if (world.ended is not None or world.failures) and is_over():
                return

    def _expire(self) -> None:
        """Ends the first lease."""
        now, _, who, number = self._queue.expiries.popleft()
        leases, name = self._rounds.leases, self._names[who]
        self._clock.now = now
        if leases.awaits(name, number):
            if self._messages.wait:  # they arrived before
                self._clients.decide()
            leases.expire(name, number)
            self._clients.proceed()

    def _arrive_in_a_row(self) -> bool:
        """Lets updates arrive until the server decides on them.

        No client gets a task meanwhile, so the others are not affected by when a client
        hears that its update has arrived.

        Returns:
            Whether anything happened.
        """
        if not self._rounds.is_settled:
            return False
        end, events, lives = self._next_other(), self._queue.events, self._queue.life
        clients, now, passed, decides = self._clients, self._clock.now, False, False
        while not decides and events and events[0] < end:
            event = when, _, kind, who, life = events[0]
            if lives[who] == life:
                if kind == READY:
                    self._hear_before(event)
                    clients.hear_and_wait(who)
                elif kind != ARRIVES:
                    break
                else:
                    delivered = clients.deliver(who, when)
                    if delivered is None:
                        break
                    now, decides = when, delivered
            heappop(events)
            passed = True
        if passed:
            self._clock.now = now
            self._hear_before(event if decides else min([end, *events[:1]]))
        if decides:
            clients.decide()
        return passed

    def _next_other(self) -> tuple[float, ...]:
        """Returns the time of the next event that does not come from a client."""
        expiries, others = self._queue.expiries, self._clock.queue
        leases, names = self._rounds.leases, self._names
        while expiries and not leases.awaits(names[expiries[0][2]], expiries[0][3]):
            expiries.popleft()
        next_timer = others[0][:2] if others else NEVER
        return min(expiries[0], next_timer) if expiries else next_timer

    def _hear_before(self, event: tuple[float, ...]) -> None:
        """Tells clients the verdicts that are due before an event."""
        acks, lives, hear = self._queue.acks, self._queue.life, self._clients
        while acks and acks[0] < event:
            _, _, _, who, life = acks.popleft()
            if lives[who] == life:
                hear.hear_and_wait(who)
