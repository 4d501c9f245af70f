"""Replays a journal, with the run's settings or with others.

A restart applies the recorded decisions. A replay makes them again, from the recorded
inputs. With the same settings on the same machine they must be the same; with others
they show what would have happened.
"""

from collections.abc import Iterator
from dataclasses import replace

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import (
    ClientEnrolled,
    Closed,
    Decided,
    Declined,
    Departed,
    Enrolled,
    Evicted,
    Freed,
    HistoryForked,
    Leased,
    Opened,
    Paused,
    Readmitted,
    Record,
    RunResumed,
    SnapshotOrdered,
    StateRolledBack,
    Stepped,
    StopRequested,
    Unpaused,
)
from fedcore.coordinator.settings import StopConfig
from fedcore.protocol import NOTHING_SETTLED, ModelName, Push
from fedrun.config import FederationConfig, parse_config
from fedrun.journal.journal import Journal
from fedrun.journal.recover import new_coordinator, require_all_updates
from fedrun.journal.store import Configured, Row, split_actions
from fedrun.methods import require_same


class Replay:
    """Makes all decisions again, on what a journal received."""

    def __init__(
        self,
        journal: Journal,
        config: FederationConfig | None = None,
        *,
        whole_records: bool = True,
    ) -> None:
        """Prepares a replay.

        Args:
            journal: of the run.
            config: the settings; None: the run's own.
            whole_records: records of versions hold digests and norms, as the run's do.
                Without them, the same models are made in less time.

        Raises:
            JournalError: payloads of the beginning were dropped, or the run kept none.
        """
        require_all_updates(journal)
        recorded = journal.configurations()
        require_same(recorded[-1][1].config)
        first = recorded[0][1]
        self._filter = parse_config(first.config).algorithm.update_filter
        spec, initial_D = journal.initial()
        chosen = config or parse_config(first.config)
        endless = chosen.model_copy(update={"stop": StopConfig()})
        self.coordinator: Coordinator = new_coordinator(
            endless, spec, initial_D, first.epoch, served=whole_records
        )
        self.coordinator.rounds.completes_cohorts = False
        self._journal, self._config = journal, config
        self._versions = {0: 0}  # by recorded version: the version here

    def run(self) -> Iterator[tuple[Record, list[Record]]]:
        """Yields each record, and the records that the same input leads to now."""
        for _, record in self._journal.entries():
            decided = self.take(record)
            if not isinstance(record, Configured):
                yield record, decided

    def take(self, record: Row, opened: Opened | None = None) -> list[Record]:
        """Replays the next record; returns the records that its input leads to now.

        Args:
            record: of the journal.
            opened: the payload of an update, if it was unpacked before.
        """
        if isinstance(record, Configured):
            self._amend(record)
            return []
        decided = split_actions(self._feed(record, opened))[0]
        if isinstance(record, Stepped):
            self._versions[record.version] = self.coordinator.state.version
        return decided

    def _amend(self, recorded: Configured) -> None:
        """Takes over a change of the run's settings, unless others were given."""
        config = parse_config(recorded.config)
        self._filter = config.algorithm.update_filter
        if self._config is None:
            self.coordinator.amend(
                config.algorithm.build(self.coordinator.algorithm.model),
                StopConfig(),
                config.evaluate,
                config.timeouts,
            )

    def _feed(self, record: Record, opened: Opened | None) -> list[Action]:
        match record:
            case Enrolled():
                return self.coordinator.handle(
                    ClientEnrolled(
                        at=record.at,
                        cid=record.cid,
                        name=record.name,
                        role=record.role,
                        index=record.index,
                        count=record.count,
                        owner=record.owner,
                        certified=True,  # it was enrolled
                    )
                )
            case Freed():
                return self.coordinator.handle(Freed(at=record.at, name=record.name))
            case Decided():
                return self._feed_update(record, opened)
            case Stepped():
                if record.reason == "buffer":
                    return []  # a full buffer steps by itself
                return self.coordinator.flush(record.at, record.reason)
            case HistoryForked():
                return self.coordinator.handle(
                    StateRolledBack(
                        at=record.at, fresh_epoch=record.epoch, reason=record.reason
                    )
                )
            case Closed():
                return self.coordinator.handle(
                    StopRequested(at=record.at, reason=record.reason)
                )
            case RunResumed():
                self.coordinator.state.note(record)
                return []
            case Leased() | Declined():
                self._judge_before(record)
                return []
            case Departed():
                return self.coordinator.handle(Departed(at=record.at, cid=record.cid))
            case Paused() | Unpaused() | Evicted() | Readmitted() | SnapshotOrdered():
                return self.coordinator.handle(record)
            case _:
                return []

    def _judge_before(self, record: Leased | Declined) -> None:
        """Applies what was decided on a task before it was computed.

        Another update filter is asked about the updates instead.
        """
        state = self.coordinator.state
        if self._has_recorded_filter:
            version = self._versions.get(record.version, state.version)
            state.note(replace(record, version=version))

    @property
    def _has_recorded_filter(self) -> bool:
        return self.coordinator.algorithm.config.update_filter == self._filter

    def _feed_update(self, record: Decided, opened: Opened | None) -> list[Action]:
        if not record.was_read:
            return []
        epoch = self.coordinator.state.epoch
        base = self._versions.get(record.base, self.coordinator.state.version)
        push = Push(
            cid=record.cid,
            epoch=epoch,
            seq=record.seq,
            base=ModelName(epoch, base),
            payload=record.payload,
            digest=record.digest,
            settled=NOTHING_SETTLED,
            samples=record.samples,
            steps=record.steps,
            update_norm=record.update_norm,
            memory_norm=record.memory_norm,
            oldest=None
            if record.oldest is None
            else ModelName(epoch, self._versions.get(record.oldest, record.oldest)),
            counts=record.counts,
            loss=record.loss,
            measured=record.measured,
            metrics=record.metrics,
        )
        coordinator = self.coordinator
        coordinator.state.touch(record.at)
        decided = coordinator.decide(push, opened, has_task=record.task)
        return [*decided, *coordinator.rounds.advance()]
