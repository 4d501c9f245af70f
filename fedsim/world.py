"""The simulator's loop: a virtual clock drives the real coordinator.

The records of the coordinator go to the same journal as in a deployment, so the same
report and the same tools read both.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, assert_never

from fedcore.coordinator.actions import (
    Action,
    Finish,
    Lease,
    Persist,
    Refuse,
    SendAck,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.events import (
    Evaluated,
    Event,
    Stepped,
    StepReason,
    StopRequested,
    Timer,
    TimerFired,
    UpdatePushed,
)
from fedcore.errors import LatecomerError, WorkloadError
from fedcore.protocol import Ack, Answer, Epoch, Patch, Reply
from fedcore.rng import Key
from fedcore.typing import Bytes, Seconds, Vector
from fedrun.commit import GroupCommit
from fedrun.journal.store import Row
from fedrun.run import Run
from fedrun.traffic import Lane, Traffic, Way, codec_of
from fedrun.traffic_file import LaneRow, TrafficFile
from fedsim.clock import Call, Clock
from fedsim.interrupts import Interrupts
from fedview.callbacks import Notice
from fedview.results.coverage import ShortVersions
from fedview.results.divergence import Divergence, classes_of

_log = logging.getLogger("fedsim")


class Actor(Protocol):
    """A client or an evaluator that talks to the server."""

    def receive_reply(self, cid: str, reply: Reply) -> None:
        """Receives the server's answer to a pull."""

    def receive_ack(self, cid: str, ack: Ack) -> None:
        """Receives the server's answer to a push."""

    def receive_refusal(self, cid: str, rest: Seconds) -> None:
        """Receives the refusal of a task before it is computed."""


class World:
    """One run under a virtual clock.

    Args:
        run: the run on disk.
        on_event: is called with each event; if it returns a text, the run ends.
    """

    def __init__(
        self, run: Run, on_event: Callable[[Notice], str | None] | None = None
    ) -> None:
        self.run = run
        self.actors: dict[str, Actor] = {}
        self.clock: Clock[Call] = Clock()
        self.clock.now = run.coordinator.state.at
        self.ended: str | None = None
        self.failures: list[WorkloadError] = []  # errors of the clients that gave up
        self.interrupts = Interrupts()
        self.closing: list[Callable[[], None]] = []  # writes the last data
        self.moved: Iterable[LaneRow] | None = None  # bytes that others counted
        self.follow: Callable[[], None] = lambda: None  # after the server's actions
        self.start: Callable[[Lease], None] | None = None  # a task, without a pull
        self._group = GroupCommit(run, self._warn)
        self._short = ShortVersions()
        self._short.buffer = run.config.algorithm.buffer
        self._group.snapshots = False  # the engine's snapshots include clients
        self._book = TrafficFile(run.journal.folder)
        self._traffic = self._book.load()
        self._on_event, self._is_stopping = on_event, False
        self._divergence = Divergence(classes_of(run.coordinator.algorithm.model))
        self._key = Key.root(run.config.seed).fold_in("world")
        self._nonce = 0
        self._carry_out(self._group.commit())

    @cached_property
    def version_0(self) -> Vector:
        """The initial model, which every client can derive by itself, shape (D,)."""
        return self.run.journal.initial()[1]

    def execute(
        self, until: Callable[[], bool], stops: Callable[[], bool] = lambda: False
    ) -> None:
        """Executes events until a condition holds or there are no more events.

        Args:
            until: the condition. It is checked after each event once the run has
                ended or a client has given up.
            stops: is called before each event and returns whether to stop.
        """
        happens = self.clock.next
        while not stops() and (what := happens()) is not None:
            what()
            if (self.ended is not None or self.failures) and until():
                return

    def catch_up(self) -> None:
        """Executes all events that are due by now."""
        while (what := self.clock.next(self.clock.now)) is not None:
            what()

    def feed(self, event: Event) -> None:
        """Passes an event to the server, writes records, and carries out actions."""
        if isinstance(event, UpdatePushed):
            self._count(event.push.cid, "up", event.push.payload)
        with self.interrupts.held():
            self._group.feed(event)
            actions = self._group.commit()
        self._carry_out(actions)
        self.tell(event)

    def carry_out_now(self, actions: list[Action]) -> None:
        """Carries out actions, and holds back their records until the next commit."""
        with self.interrupts.held():
            others = self._group.note(actions)
        if others:
            self._carry_out(others)

    def commit(self) -> None:
        """Writes the records that were held back."""
        with self.interrupts.held():
            actions = self._group.commit(lazy_too=True)
        self._carry_out(actions)

    def tell(self, event: Notice) -> None:
        """Calls ``on_event``, which may end the run by returning a reason."""
        if isinstance(event, Evaluated):
            row = self.run.coordinator.state.clients[event.cid]
            if row.role == "evaluator":
                self._divergence.observe_evaluation(event.values, event.version)
                for warning in self._divergence.news():
                    _log.warning("%s", warning)
        if self._on_event is None:
            return
        reason = self._on_event(event)
        if reason is not None and not self._is_stopping:
            self._is_stopping = True
            self.clock.at(self.clock.now, lambda: self._stop(reason))

    def _stop(self, reason: str) -> None:
        self.feed(StopRequested(at=self.clock.now, reason=reason))

    def forget_traffic(self, cids: Collection[str]) -> None:
        """Sets the byte counts of these clients back to zero."""
        known, self._traffic = self._traffic.lanes(), Traffic()
        for lane, load in known.items():
            if lane.cid not in cids:
                self._traffic.count(
                    lane, payload=load.payload, transfers=load.transfers
                )

    def dump(self, cids: Collection[str]) -> dict[str, Any]:
        """Returns these clients' part of the world's state, for :meth:`load`.

        All records so far are in the journal by then.
        """
        self.commit()
        lanes = [
            (*lane, load.transfers, load.payload)
            for lane, load in self._traffic.lanes().items()
            if lane.cid in cids
        ]
        gave_up = [str(error) for error in self.failures]
        return {"nonce": self._nonce, "lanes": lanes, "failures": gave_up}

    def load(self, saved: dict[str, Any], cids: Collection[str]) -> None:
        """Restores the state that :meth:`dump` returned."""
        self._nonce = max(self._nonce, saved["nonce"])
        self.failures = [WorkloadError(text) for text in saved["failures"]]
        self.forget_traffic(cids)
        for cid, way, codec, transfers, payload in saved["lanes"]:
            lane = Lane(cid, way, codec)
            self._traffic.count(lane, payload=payload, transfers=transfers)

    def step(self, at: Seconds, reason: StepReason) -> None:
        """Makes a version of the updates in the buffer."""
        with self.interrupts.held():
            self._group.step(at, reason)
            actions = self._group.commit()
        self._carry_out(actions)

    def _warn(self, records: list[Row]) -> None:
        """Warns once of versions with fewer updates because clients are gone."""
        for record in records:
            if isinstance(record, Stepped):
                self._short.observe(record)
        if said := self._short.news():
            _log.warning("%s", said)

    def close(self) -> None:
        """Writes the last records and the byte counts, and closes the files."""
        for write in self.closing:
            write()
        with self.interrupts.held():
            self._group.commit(lazy_too=True)
            self.run.journal.close()
            self._book.save(self._traffic, self.moved)
            self._book.close()

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Persist():
                    pass
                case SendReply():
                    self.download(action.cid, action.reply.patch)
                    self.actors[action.cid].receive_reply(action.cid, action.reply)
                case SendAck():
                    self.actors[action.cid].receive_ack(action.cid, action.ack)
                case SetTimer():
                    self._set_timer(action)
                case StartTask():
                    assert self.start is not None, "every client pulls"
                    self.start(action.lease)
                case Finish():
                    self.ended = action.reason
                case Refuse() if action.reason:
                    self.actors[action.cid].receive_refusal(
                        action.cid, action.retry_after
                    )
                case Refuse(answer=Answer.RETRY):
                    pass  # it is lost, and asks again when it is back
                case Refuse():
                    raise LatecomerError(f"{action.cid} is not enrolled")
                case _:
                    assert_never(action)
        self.follow()

    def download(self, cid: str, patch: Patch) -> None:
        """Counts the bytes of a patch that a client receives."""
        if patch.parts:
            self._count(cid, "down", *patch.parts)

    def _count(self, cid: str, way: Way, *parts: Bytes) -> None:
        size = sum(map(len, parts))
        lane = Lane(cid, way, codec_of(parts[0]))
        self._traffic.count(lane, payload=size, transfers=1)

    def nonce(self) -> int:
        """Returns a number that was not used before."""
        self._nonce += 1
        return self._nonce

    def fresh_epoch(self) -> Epoch:
        """Returns a name for a new history; equal seeds give equal names."""
        return self._key.fold_in(self._nonce).digest.hex()[:16]

    def _set_timer(self, action: SetTimer) -> None:
        if action.timer.kind == "hold" and self.start is not None:
            return  # no client pulls, so no pull has to be answered in time
        self.clock.at(action.at, Alarm(self, action.timer))


@dataclass(frozen=True, slots=True)
class Alarm:
    """The event of a timer at the server."""

    world: World
    timer: Timer

    def __call__(self) -> None:
        """Fires the timer, unless nobody waits for it any longer."""
        if not self.is_void:
            self.world.feed(TimerFired(at=self.world.clock.now, timer=self.timer))

    @property
    def is_void(self) -> bool:
        """Whether the server no longer waits for it."""
        return self.world.run.coordinator.is_void(self.timer)
