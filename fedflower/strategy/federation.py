"""Drives a coordinator over Flower's Grid: one loop, one thread.

The loop pulls the replies that have come, feeds them as events, makes the records
durable, and only then sends the resulting tasks. A node that has replied gets its next
task at once. All decisions on updates are the coordinator's, as in the gRPC server.
"""

import logging
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
    Evaluated,
    Event,
    ServerStarted,
    ServerStopped,
    TimerFired,
)
from fedcore.coordinator.state import ServerState
from fedcore.protocol import Answer, Verdict
from fedflower.strategy.central import Central, Wishes
from fedflower.strategy.nodes import Ids, Post
from fedflower.strategy.presence import Presence
from fedflower.strategy.replies import Replies
from fedflower.strategy.results import Metrics
from fedflower.strategy.timing import Alarms, Time
from fedrun.commit import GroupCommit
from fedrun.run import Run

_log = logging.getLogger("flwr.latecomer")  # Flower shows log lines below its name
SHORTEST, LONGEST = 0.02, 0.5  # pauses of the loop while nothing happens, in seconds


class Federation:
    """The nodes of one Flower run, and our coordinator."""

    def __init__(
        self,
        run: Run,
        grid: Any,
        post: Post,
        metrics: Metrics,
        wishes: Wishes,
        clock: Time,
    ) -> None:
        """Prepares the loop without sending anything.

        Args:
            run: the run on disk, with its coordinator.
            grid: Flower's Grid.
            post: writes and reads messages.
            metrics: collects metrics from the records.
            wishes: the ServerApp's wishes.
            clock: tells the time, and waits.
        """
        self.run, self._wishes, self._clock = run, wishes, clock
        self._state: ServerState = run.coordinator.state
        self._group = GroupCommit(run, metrics.note)
        self._alarms = Alarms()
        self._central = Central(self._state, wishes, run.config.stop.versions)
        ids, feed = Ids(f"{run.run_id} {getattr(grid.run, 'run_id', 0)}"), self._feed
        self._presence = Presence(ids, grid, self._state, feed, clock, wishes.patience)
        self._replies = Replies(self._presence, grid, self._state, post, feed, clock)
        self.ended: str | None = None

    # ------------------------------------------------------------------ the loop

    def execute(self) -> None:
        """Drives the run until it has ended, or until no reply comes any more.

        Raises:
            UserCodeError: every node failed repeatedly.
            DiskError: the journal cannot be written; nothing depends on the lost
                records.
        """
        self.run.journal.append([ServerStarted(at=self._clock.now())])
        self._open()
        pause = SHORTEST
        while not self._is_over():
            moved = self._replies.receive() | self._presence.look()
            moved |= self._fire() | self._presence.wake()
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
        """Retires nodes of earlier Flower runs; evaluates the newest model."""
        self._release()
        self._presence.part()
        enrolled = self._central.enrolled(self._clock.now())
        if enrolled is not None:
            self._feed(enrolled)
        self._central.look()
        self._release()
        self._evaluate_due()

    def _is_over(self) -> bool:
        silent = self._replies.silent
        if self.ended is not None or self._state.closed:
            waits = self._replies.has_evaluations
            return not waits or silent > self.run.config.timeouts.linger
        if silent > self._wishes.patience:
            _log.warning(
                "no node has replied for %g seconds (%d are connected): the run stops "
                "at version %d, and goes on from there with the same journal",
                self._wishes.patience,
                len(self._presence.there),
                self._state.version,
            )
            return True
        self._presence.require_one()
        return False

    def _feed(self, event: Event) -> None:
        self._group.feed(event)
        self._central.look()

    def _evaluate_due(self) -> bool:
        """Evaluates the versions that are due; returns whether there was one."""
        evaluated = self._central.evaluate(self._clock.now)
        evaluations = self.run.coordinator.evaluations
        for event in evaluated:
            if isinstance(event, Evaluated):  # the ServerApp asks itself
                evaluations.ask(event.cid, event.version)
            self._feed(event)
        if evaluated:
            self._replies.hear()  # nobody has listened meanwhile
            self._release()
        return bool(evaluated)

    # ------------------------------------------------------------------- actions

    def _release(self) -> None:
        """Makes the records durable, and carries out the actions that need them."""
        while actions := self._group.commit():
            for action in actions:
                self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case SendReply():
                node = self._presence.of(action.cid)
                if node is not None and node.cid == action.cid:
                    self._replies.offer(node, action.reply)
            case SendAck():
                self._tell(action)
            case SetTimer():
                if action.timer.kind != "hold":  # no connection waits
                    self._alarms.set(action)
            case Finish():
                self.ended = action.reason
                _log.info("the run has ended: %s", action.reason)
            case Refuse():
                self._refuse(action)
            case Persist() | StartTask():
                raise AssertionError("records are durable, and every node pulls")
            case _:
                assert_never(action)

    def _tell(self, action: SendAck) -> None:
        node, ack = self._presence.of(action.cid), action.ack
        assert node is not None
        if ack.answer is Answer.OBSOLETE and node.cid == action.cid:
            self._presence.start_again(node)
        elif ack.answer is not Verdict.ACCEPTED:
            _log.warning(
                "an update of %s is %s: %s", node.name, ack.answer.value, ack.reason
            )

    def _refuse(self, refusal: Refuse) -> None:
        node = self._presence.of(refusal.cid)
        if node is None:
            return
        if refusal.retry_after:
            node.rests_until = self._clock.now() + refusal.retry_after
        elif node.cid == refusal.cid:
            self._presence.start_again(node)

    def _fire(self) -> bool:
        """Fires the timers that are due; returns whether there was one."""
        now, moved = self._clock.now(), False
        while (timer := self._alarms.due(now)) is not None:
            if not self.run.coordinator.is_void(timer):
                self._feed(TimerFired(at=now, timer=timer))
                moved = True
        return moved
