"""Replays a run with a change, beside what was recorded, and compares the models."""

from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

from fedcore.arrays import norm
from fedcore.coordinator import Coordinator
from fedcore.coordinator.events import Decided, Opened, Record, Stepped
from fedcore.errors import ConfigError, CorruptJournalError
from fedrun.config import FederationConfig
from fedrun.journal import Configured, Journal
from fedrun.journal.replay import Replay
from fedrun.journal.restored import Restored, open_payload
from fedrun.journal.store import Row
from fedview.results.coverage import Coverage
from fedview.what_if.counterfactual import Counterfactual, Versions
from fedview.what_if.decisions import Decisions
from fedview.what_if.feedback import (
    Exposure,
    Sensitivity,
    distance,
    model_of,
    unknown_because,
)
from fedview.what_if.outcome import Outcome
from fedview.what_if.progress import Progress, silent
from fedview.what_if.settings import newest_config, override_config, require_trainers


def compare(
    run: Path,
    changes: Sequence[str] = (),
    without: Collection[str] = (),
    progress: Progress = silent,
) -> Counterfactual:
    """Replays a run with other settings or fewer clients; compares the two models.

    Updates that wait in the buffer at the end of the record count in both models.

    Args:
        run: the folder of the run.
        changes: of its newest config, each as ``field=value``.
        without: the names of the clients to leave out.
        progress: is told how far the replay is.

    Raises:
        ConfigError: a client or a setting does not exist, or no update is left.
        JournalError: the journal is damaged, or does not hold all updates.
    """
    with closing(Journal.open(run, read_only=True)) as journal:
        journal.require_sound()
        require_trainers(journal, without)
        pair = _Pair(journal, override_config(journal, changes), without)
        total = journal.store.last
        for number, record in journal.entries():
            pair.take(record)
            progress(number, total)
        return pair.finish(run, tuple(changes), tuple(without))


class _Pair:
    """A run as it was recorded, and as it is asked for, record by record."""

    def __init__(
        self,
        journal: Journal,
        config: FederationConfig | None,
        without: Collection[str],
    ) -> None:
        self._journal = journal
        self._recorded = Restored(journal)
        self._replay = None
        if config is not None or not without:  # decisions are made anew
            self._replay = Replay(journal, config, whole_records=False)
        self._left_out = Restored(journal, without, config) if without else None
        newest = newest_config(journal)
        self._before = Coverage(newest.algorithm.count_update)
        self._after = Coverage((config or newest).algorithm.count_update)
        self._decisions, self._versions = Decisions(), Versions()
        self._sensitivity = Sensitivity(self._recorded.coordinator)
        self._exposure = Exposure()
        self._config = (config or newest).algorithm
        self._digest = ""  # of the newest recorded version; later ones build on it

    @property
    def _asked(self) -> Coordinator:
        asked = self._left_out or self._replay
        assert asked is not None
        return asked.coordinator

    def take(self, record: Row) -> None:
        """Applies a record to both."""
        opened = open_payload(record, self._recorded.coordinator.algorithm)
        for each in self._recorded.take(record, opened):
            self._before.observe(each)
            self._sensitivity.observe(each, opened and opened.payload)
        replayed = self._apply(record, opened)
        for each in replayed:
            self._after.observe(each)
        if self._replay is None and (replayed or isinstance(record, Stepped)):
            assert not isinstance(record, Configured)
            self._exposure.observe(record, self._recorded.coordinator, self._asked)
        if isinstance(record, Decided):
            now = next((r for r in replayed if isinstance(r, Decided)), None)
            self._decisions.note(record, now)
        if isinstance(record, Stepped):
            self._digest = record.digest
            self._note_version(record)

    def _apply(self, record: Row, opened: Opened | None) -> list[Record]:
        """Applies a record to the run that is asked for; returns what it is there."""
        if self._left_out is None:
            assert self._replay is not None
            return self._replay.take(record, opened)
        if self._replay is None:
            return self._left_out.take(record, opened)
        made = self._replay.take(record, opened)
        return [one for each in made for one in self._left_out.take(each, opened)]

    def _note_version(self, record: Stepped) -> None:
        then, now = self._asked, self._recorded.coordinator
        self._versions.note(
            record,
            then.state.version,
            distance(now, then),
            norm(model_of(now)),
            (now.state.applied, then.state.applied),
        )

    def finish(
        self, run: Path, changes: tuple[str, ...], without: tuple[str, ...]
    ) -> Counterfactual:
        """Lets the waiting updates count; returns the comparison.

        Raises:
            ConfigError: no update is left.
            CorruptJournalError: the last version is not the recorded one.
        """
        state = self._recorded.coordinator.state
        if self._digest not in ("", state.published.digest):
            raise CorruptJournalError(
                f"{self._journal.folder}: version {state.version} should have digest "
                f"{self._digest}, the replay has {state.published.digest}; fedserver "
                "journal verify names the first version that differs"
            )
        self._exposure.close(self._asked)
        recorded = self._outcome(self._recorded.coordinator, self._before)
        replayed = self._outcome(self._asked, self._after)
        if without and recorded.updates and not replayed.updates:
            raise ConfigError(
                f"--without {', '.join(without)}: no update is left, so there is no "
                "model to compare with"
            )
        return Counterfactual(
            run,
            changes,
            without,
            recorded,
            replayed,
            self._decisions,
            self._versions.table(),
            self._feedback(),
        )

    def _feedback(self) -> float | None:
        """Returns the largest answers of the others, as a share of the difference.

        None where that is not known: for other settings, and for some recipes.
        """
        if self._replay is not None or unknown_because(self._config):
            return None
        apart = distance(self._recorded.coordinator, self._asked)
        return self._exposure.feedback(self._sensitivity.value, apart)

    def _outcome(self, coordinator: Coordinator, coverage: Coverage) -> Outcome:
        state = coordinator.state
        buffered = state.count
        coordinator.flush(state.at)
        return Outcome(
            state.algorithm.model,
            model_of(coordinator),
            self._journal.rest(),
            state.version,
            state.applied,
            buffered,
            coverage,
        )
