"""The loop that lets events happen to stacked clients, in the order of time.

It merges four queues: what happens to clients, the verdicts that they hear, the ends of
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
    """What the loop lets happen to clients."""

    def deliver(self, who: int, at: Seconds) -> bool | None:
        """A client's message arrives for the first time.

        Returns:
            Whether the server must decide now; None: the update cannot be used.
        """

    def decide(self) -> None:
        """The server decides on all updates that have arrived."""

    def hear_and_wait(self, who: int) -> None:
        """A client hears a verdict at a time when nobody can get a task."""

    def proceed(self) -> None:
        """Makes the version that is due, and starts clients that may train now."""


class EventLoop:
    """Handles events until a run is over."""

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
        """Nothing happens yet.

        Args:
            world: its clock, timers and interrupts.
            queue: of what happens to clients.
            names: of the clients.
            handlers: for each kind of event.
            clients: to whom it happens.
            messages: of the clients.
            snapshots: are taken between two events.
            in_rows: whether updates may be handled in rows: what happens to one
                client does not depend on when another one hears its verdict.
        """
        self._world, self._clock, self._names = world, world.clock, names
        self._queue, self._handlers, self._clients = queue, handlers, clients
        self._messages, self._snapshots = messages, snapshots
        self._rounds: Rounds = world.run.coordinator.rounds
        self._in_rows = in_rows

    def run(self, is_over: Callable[[], bool]) -> None:
        """Handles events until it is over, or nothing happens any more."""
        world, clock, queue = self._world, self._clock, self._queue
        interrupts, snapshots = world.interrupts, self._snapshots
        events, acks, expiries = queue.events, queue.acks, queue.expiries
        others, handlers, lives = clock.queue, self._handlers, queue.life
        in_rows = self._in_rows
        while events or acks or others:
            wants_snapshot = interrupts.came or snapshots.due
            # No snapshot holds what others are to do at this very moment.
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
        """The first lease ends."""
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

        Nobody gets a task meanwhile, so it makes no difference to others when a client
        hears that its update is there.

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
        """When something happens next that is no client's doing."""
        expiries, others = self._queue.expiries, self._clock.queue
        leases, names = self._rounds.leases, self._names
        while expiries and not leases.awaits(names[expiries[0][2]], expiries[0][3]):
            expiries.popleft()
        next_timer = others[0][:2] if others else NEVER
        return min(expiries[0], next_timer) if expiries else next_timer

    def _hear_before(self, event: tuple[float, ...]) -> None:
        """Clients hear the verdicts that are due before an event."""
        acks, lives, hear = self._queue.acks, self._queue.life, self._clients
        while acks and acks[0] < event:
            _, _, _, who, life = acks.popleft()
            if lives[who] == life:
                hear.hear_and_wait(who)
