"""Makes records durable before the actions that rest on them are carried out.

Events are handled one after the other; their records are made durable together,
and only then are their actions released. Concurrent clients share one flush.
"""

import logging
import time
from collections.abc import Callable

from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import Event, SnapshotOrdered, StepReason
from fedcore.errors import DiskError
from fedcore.typing import Seconds
from fedrun.checkpoints import CheckpointKeeper
from fedrun.journal.store import Row, split_actions
from fedrun.run import Run

_log = logging.getLogger(__name__)
_SOONER = 10  # a failed snapshot is tried again after a tenth of the records


class GroupCommit:
    """Handles events of one run, and commits their records in groups. One thread."""

    def __init__(
        self, run: Run, observe: Callable[[list[Row]], None] | None = None
    ) -> None:
        """``observe`` is shown all records once they are durable."""
        self._run = run
        self._observe = observe
        self._keeper = CheckpointKeeper(run)
        self._records: list[Row] = []
        self._actions: list[Action] = list(run.actions)
        self._since = 0.0  # when the oldest of the records came
        self._must_flush = False
        self._since_snapshot = 0
        self._snapshot_due = run.config.journal.snapshot_records
        self.snapshots = True
        """Whether snapshots are written from time to time, to shorten a restart."""

    @property
    def lag(self) -> tuple[int, Seconds]:
        """The records that are not durable yet, and for how long the oldest waits.

        Any thread may ask; the two may be of different moments.
        """
        waiting, since = len(self._records), self._since
        return waiting, time.monotonic() - since if waiting else 0.0

    def feed(self, event: Event) -> None:
        """Handles an event; its actions leave with the next commit."""
        self.take(self._run.coordinator.handle(event))

    def step(self, at: Seconds, reason: StepReason) -> None:
        """Makes a version of what has arrived."""
        self.take(self._run.coordinator.flush(at, reason))

    def commit(self, *, lazy_too: bool = False, is_whole: bool = True) -> list[Action]:
        """Makes the records durable, and returns the actions that follow from them.

        Args:
            lazy_too: records on which no answer rests do not wait for one that must be
                durable.
            is_whole: the state is what the records lead to. Of a state that an event
                has changed by half no snapshot is taken; the next commit takes it.

        Raises:
            DiskError: nothing was written, and no action may be released. Records and
                actions are kept: call again, and feed no event before that succeeds.
            JournalError: the journal cannot be written any more; the process must end.
        """
        if self._records and (self._must_flush or lazy_too):
            number = self._run.journal.append(self._records)
            records, self._records, self._must_flush = self._records, [], False
            self._keeper.take_note(records)
            if self._observe is not None:
                self._observe(records)
            self._since_snapshot += len(records)
            is_due = self._since_snapshot >= self._snapshot_due and self.snapshots
            is_due |= any(isinstance(each, SnapshotOrdered) for each in records)
            if is_due and is_whole:
                self.snapshot(number)
            elif is_due:
                self._snapshot_due = 0
        actions, self._actions = self._actions, []
        return actions

    def note(self, actions: list[Action]) -> list[Action]:
        """Keeps records for the next commit; returns the other actions at once.

        For simulated clients, to whom nothing is promised.
        """
        held, self._actions = self._actions, []
        self.take(actions)
        others, self._actions = self._actions, held
        return others

    def snapshot(self, number: int) -> None:
        """Writes the state after record ``number``.

        Without it a restart takes longer, but is correct. So a failure leads to a
        warning, and to another attempt after some more records.
        """
        every = self._run.config.journal.snapshot_records
        self._since_snapshot, self._snapshot_due = 0, every
        try:
            self._run.snapshot(number)
        except DiskError as error:
            self._snapshot_due = max(1, every // _SOONER)
            _log.warning("no snapshot was written: %s", error)

    def finish(self) -> None:
        """Writes a snapshot and the waiting models, before the process ends."""
        self.snapshot(self._run.journal.store.last)
        self._keeper.write_waiting()

    def take(self, actions: list[Action]) -> None:
        """Records join the next commit, and the other actions leave with it."""
        records, others = split_actions(actions)
        if records and not self._records:
            self._since = time.monotonic()
        for record in records:
            self._keeper.hold(record)
        self._records += records
        self._must_flush |= any(record.durable for record in records)
        self._actions += others
