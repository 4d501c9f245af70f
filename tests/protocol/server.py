"""The server of the model check: the real coordinator, group commit and journal."""

import shutil
from pathlib import Path
from typing import Any

from fedcore.coordinator.actions import Action, SendReply, SetTimer
from fedcore.coordinator.events import (
    Decided,
    Event,
    HistoryForked,
    Stepped,
    Timer,
    TimerFired,
)
from fedcore.protocol import Epoch
from fedrun.commit import GroupCommit
from fedrun.config import FederationConfig
from fedrun.journal import restore
from fedrun.journal.store import Row
from fedrun.run import open_run, start_run
from tests.protocol.ghost import ServerGhost, ViolationError, differ
from tests.protocol.parts import INITIAL, SPEC, Rules
from tests.protocol.photo import photo

SECRET = b"of a model check"


class CheckedServer:
    """A server process that can be killed, and the ghost of its history."""

    def __init__(
        self,
        config: FederationConfig,
        place: Path,
        first: Epoch,
        tolerance: float,
        rules: Rules,
    ) -> None:
        self.config, self.place = config, place
        self.tolerance, self.rules = tolerance, rules
        self._first = first
        self._backups = 0
        self.timers: dict[Timer, float] = {}
        self.past: list[Timer] = []  # that have fired, and may come once more
        self.released: list[Action] = []
        self.decisions: list[Decided] = []  # all that were ever made
        self.up = False
        self._restored = False
        self.branch = 0  # counts rollbacks that nobody announced
        self.rollbacks = 0  # counts all
        self.unnoticed = False  # whether the last one has not been found out yet
        self._names = {first}  # of all histories there ever were
        self.run = start_run(
            config, SPEC, INITIAL, 0.0, durable=False, epoch=first, secret=SECRET
        )
        self._begin()

    def _begin(self) -> None:
        self.group = self._new_group()
        self.up = True
        self.timers, self.past = {}, []
        self._armed: Timer | None = None  # the deadline of the present cohort
        records = [entry.record for entry in self.run.journal.entries()]
        self.durable = self._ghost(records)  # of what is on disk
        self.ghost = self._ghost(records)  # of what was handled
        self._seen = self.run.journal.store.last
        if self._restored:
            self._restored = False
            self._new_history(self.durable_epoch)
        self.commit()

    def _new_group(self) -> GroupCommit:
        return GroupCommit(self.run)

    def _ghost(self, records: list[Row]) -> ServerGhost:
        algorithm = self.config.algorithm
        return ServerGhost.of(records, self.tolerance, self.rules, algorithm)

    def feed(self, event: Event) -> None:
        """Handles an event; nothing leaves before the commit."""
        before, said = len(self.group._records), len(self.group._actions)
        busy = dict(self.run.coordinator.rounds.leases.busy)
        self.group.feed(event)
        self.run.coordinator.rounds.leases.validate()
        records = self.group._records[before:]
        actions = self.group._actions[said:]
        if isinstance(event, TimerFired):
            self._check_timer(event.timer, records, actions, busy)
        for record in records:
            self.ghost.apply(record)
            if isinstance(record, Stepped):
                self._armed = None
            if isinstance(record, Decided):
                self.decisions.append(record)
        for action in actions:
            if isinstance(action, SetTimer) and action.timer.kind == "deadline":
                self._armed = action.timer

    def _check_timer(
        self,
        timer: Timer,
        records: list[Row],
        actions: list[Action],
        busy: dict[str, Any],
    ) -> None:
        """I18: a timer ends what it was set for, and nothing that came later."""
        made = [record for record in records if isinstance(record, Stepped)]
        early = [record for record in made if record.reason != "complete"]
        if (made and self.ghost.closed) or (early and timer != self._armed):
            raise ViolationError(f"I18: {timer} made a version")
        for cid, lease in busy.items():
            now = self.run.coordinator.rounds.leases.busy.get(cid)
            if lease is None:
                continue
            ended = now is None or now.number != lease.number
            own = timer.kind == "lease" and timer == ("lease", cid, lease.number)
            if ended and not own and timer != self._armed and not made:
                raise ViolationError(f"I18: {timer} ended the lease of {cid}")
        replies = [a for a in actions if isinstance(a, SendReply)]
        if timer.kind == "hold" and any(a.reply.nonce != timer.number for a in replies):
            raise ViolationError(f"I18: {timer} answered another pull")

    def commit(self) -> None:
        """Makes durable what was handled, and releases its actions."""
        self._release(self.group.commit(lazy_too=True))
        store = self.run.journal.store
        for entry in self.run.journal.entries(self._seen):
            self.durable.apply(entry.record)
            if isinstance(entry.record, HistoryForked):
                self._check_reason(entry.record.reason)
                self._new_history(entry.record.epoch)
        self._seen = store.last

    def _release(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, SetTimer):
                self.timers[action.timer] = action.at
            else:
                self.released.append(action)

    @property
    def durable_epoch(self) -> str:
        """The name of the history that is on disk."""
        return self.durable.epochs[-1] if self.durable.epochs else self._first

    def _check_reason(self, reason: str) -> None:
        """I15: no client opens a history but after a rollback behind the back."""
        if "knows a later state" in reason and not self.unnoticed:
            raise ViolationError(f"I15: a history was opened for nothing: {reason}")

    def _new_history(self, name: str) -> None:
        if name in self._names:
            raise ViolationError(f"two histories have the name {name}")
        self._names.add(name)
        self.unnoticed = False

    def snapshot(self) -> None:
        """The state goes to disk, so that a restart need not replay it all."""
        self.commit()
        self.group.snapshot(self.run.journal.store.last)

    def kill(self) -> None:
        """What was not committed is gone."""
        if self.up:
            self._expected = None if self.group._records else self._photo()
            self.run.journal.close()
            self.up = False

    def start(self, at: float) -> None:
        """A new process on the same disk."""
        run = open_run(self.config, at)
        self.run = run
        if self._expected is not None:
            self._compare(self._expected, self._photo())
        self._begin()

    def _photo(self) -> dict[str, Any]:
        made: dict[str, Any] = photo(self.run.coordinator.state)
        return made

    def _compare(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """I9: a restart gives the durable state, and all of it."""
        other = [name for name in before if before[name] != after[name]]
        if other or before.keys() != after.keys():
            raise ViolationError(f"I9: a restart gave another state: {other}")

    # ------------------------------------------------------------ old disks

    def copy(self) -> Path:
        """A copy of the disk as it is now, while the server goes on or not."""
        self._backups += 1
        target = self.place / f"copy-{self._backups}"
        shutil.copytree(self.run.journal.folder, target)
        return target

    def restore(self, copy: Path, fresh: Epoch) -> None:
        """The operator brings a copy back by the command for it."""
        self.kill()
        folder = self.run.journal.folder
        shutil.rmtree(folder)
        restore(copy, folder, lambda: fresh)
        self._expected = None
        self.rollbacks += 1
        self._restored = True

    def roll_back(self, copy: Path) -> None:
        """A volume is replaced behind the server's back, and nobody says so."""
        self.kill()
        folder = self.run.journal.folder
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        self._expected = None
        self.branch += 1
        self.rollbacks += 1
        self.unnoticed = True

    def check(self) -> None:
        """I3 and I4: exact model, public model and buffer are what the records say."""
        if not self.up:
            return
        state = self.run.coordinator.state
        for what, have, want in (
            ("I3: X", state.exact_D, self.ghost.exact),
            ("I4: W", state.published.public_D, self.ghost.public),
            ("I3: the buffer", state.buffer, self.ghost.waiting),
        ):
            if differ(have, want, self.tolerance):
                raise ViolationError(f"{what} is {have.tolist()}, not {want.tolist()}")
