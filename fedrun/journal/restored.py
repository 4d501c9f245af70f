"""Applies the recorded decisions to a server's state, with or without some clients."""

from collections.abc import Collection
from dataclasses import replace

from fedcore.algorithm import Algorithm
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import Decided, Enrolled, Opened, Record, Stepped
from fedcore.coordinator.rounds import open_update
from fedrun.config import FederationConfig, parse_config
from fedrun.journal.journal import Journal
from fedrun.journal.recover import new_coordinator, require_all_updates
from fedrun.journal.store import Configured, Row


class Restored:
    """A run as a restart restores it, record by record.

    Clients can be left out. The rounds then stay as they were: each version is made of
    the same updates but for theirs, with the recorded weights, and the aggregate is
    over the others. A version of their updates alone moves nothing, and is no version
    here.
    """

    def __init__(
        self,
        journal: Journal,
        without: Collection[str] = (),
        config: FederationConfig | None = None,
    ) -> None:
        """Begins at version 0.

        Args:
            journal: of the run.
            without: the names of the clients to leave out.
            config: under which the records were made; None: the run's own.

        Raises:
            JournalError: payloads of the beginning were dropped, or the run kept none.
        """
        require_all_updates(journal)
        first = journal.configurations()[0][1]
        spec, initial_D = journal.initial()
        self.coordinator: Coordinator = new_coordinator(
            config or parse_config(first.config),
            spec,
            initial_D,
            first.epoch,
            served=False,
        )
        self._follows = config is None  # the changes of the run's settings
        self._without = set(without)
        self._left_out: set[str] = set()  # their ids
        self._versions = {0: 0}  # by recorded version: the version here

    def take(self, record: Row, opened: Opened | None = None) -> list[Record]:
        """Applies the next record; returns what it is here, if it is anything.

        Args:
            record: of the journal, or of a replay.
            opened: the payload of an update, if it was unpacked before.
        """
        if isinstance(record, Configured):
            self._amend(record)
            return []
        if self._concerns_left_out(record):
            return []
        payload = None if opened is None else opened.payload
        state = self.coordinator.state
        if not self._without:
            state.restore(record, payload)
            return [record]
        if isinstance(record, Stepped):
            made = self.coordinator.flush(record.at, record.reason)
            self._versions[record.version] = state.version
            return [each.record for each in made if isinstance(each, Persist)]
        if isinstance(record, Decided):
            base = self._versions.get(record.base, state.version)
            record = replace(record, base=base)
        state.restore(record, payload)
        return [record]

    def _amend(self, recorded: Configured) -> None:
        if self._follows:
            config = parse_config(recorded.config)
            algorithm = config.algorithm.build(self.coordinator.algorithm.model)
            self.coordinator.amend(
                algorithm, config.stop, config.evaluate, config.timeouts
            )

    def _concerns_left_out(self, record: Record) -> bool:
        if isinstance(record, Enrolled) and record.name in self._without:
            self._left_out.add(record.cid)
        return getattr(record, "cid", None) in self._left_out


def open_payload(record: Row, algorithm: Algorithm) -> Opened | None:
    """Unpacks the payload of an update, for several runs; None: there is none."""
    if isinstance(record, Decided) and record.payload:
        return open_update(record.payload, algorithm.spec)
    return None
