"""Replays a run with a change, beside what was recorded, and compares the models."""

from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

from fedcore.arrays import norm
from fedcore.coordinator import Coordinator
from fedcore.coordinator.opened import Opened, open_update
from fedcore.coordinator.records import Decided, Stepped
from fedcore.errors import ConfigError, CorruptJournalError
from fedcore.typing import Vector
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import Configured, Journal, new_coordinator
from fedrun.journal.codec import Row
from fedrun.journal.replay import Replay
from fedrun.results.coverage import Coverage
from fedrun.what_if.counterfactual import Counterfactual, Versions
from fedrun.what_if.decisions import Decisions
from fedrun.what_if.outcome import Outcome
from fedrun.what_if.progress import Progress, silent
from fedrun.what_if.settings import changed_config, newest_config, require_trainers


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
        pair = _Pair(journal, changed_config(journal, changes), without)
        total = journal.store.last
        for number, record in journal.entries():
            pair.take(record)
            progress(number, total)
        return pair.finish(run, tuple(changes), tuple(without))


class _Pair:
    """A run as it was recorded, and its replay, record by record."""

    def __init__(
        self,
        journal: Journal,
        config: FederationConfig | None,
        without: Collection[str],
    ) -> None:
        self._journal = journal
        self._replay = Replay(journal, config, without, whole_records=False)
        spec, initial_D = journal.initial()
        first = journal.configurations()[0][1]
        self._recorded: Coordinator = new_coordinator(
            parse_config(first.config), spec, initial_D, first.epoch, served=False
        )
        newest = newest_config(journal)
        self._before = Coverage(newest.algorithm.counted)
        self._after = Coverage((config or newest).algorithm.counted)
        self._decisions, self._versions = Decisions(), Versions()
        self._digest = ""  # of the newest recorded version; later ones build on it
        self._dim = spec.dim  # without the vectors that travel beside the model

    def take(self, record: Row) -> None:
        """Applies a record to both."""
        opened = None
        if isinstance(record, Decided) and record.payload:
            opened = open_update(record.payload, self._recorded.algorithm.spec)
        replayed = self._replay.take(record, opened)
        self._restore(record, opened)
        for each in replayed:
            self._after.observe(each)
        if isinstance(record, Decided):
            now = next((r for r in replayed if isinstance(r, Decided)), None)
            self._decisions.note(record, now)
        if isinstance(record, Stepped):
            self._note_version(record)

    def _restore(self, record: Row, opened: Opened | None) -> None:
        """Applies the recorded decision."""
        if isinstance(record, Configured):
            config = parse_config(record.config)
            algorithm = config.algorithm.build(self._recorded.algorithm.model)
            self._recorded.amend(
                algorithm, config.stop, config.evaluate, config.timeouts
            )
            return
        self._before.observe(record)
        payload = None if opened is None else opened.payload
        self._recorded.state.restore(record, payload)
        if isinstance(record, Stepped):
            self._digest = record.digest

    def _note_version(self, record: Stepped) -> None:
        then, now = self._replay.coordinator.state, self._recorded.state
        self._versions.note(
            record,
            then.version,
            self._distance(),
            norm(self._model(now.exact_D)),
            (now.applied, then.applied),
        )

    def _distance(self) -> float:
        then = self._replay.coordinator.state.exact_D
        return norm(self._model(then) - self._model(self._recorded.state.exact_D))

    def _model(self, exact_D: Vector) -> Vector:
        return exact_D[: self._dim]

    def finish(
        self, run: Path, changes: tuple[str, ...], without: tuple[str, ...]
    ) -> Counterfactual:
        """Lets the waiting updates count; returns the comparison.

        Raises:
            ConfigError: no update is left.
            CorruptJournalError: the last version is not the recorded one.
        """
        state = self._recorded.state
        if self._digest not in ("", state.published.digest):
            raise CorruptJournalError(
                f"{self._journal.folder}: version {state.version} should have digest "
                f"{self._digest}, the replay has {state.published.digest}; fedserver "
                "journal verify names the first version that differs"
            )
        recorded = self._outcome(self._recorded, self._before)
        replayed = self._outcome(self._replay.coordinator, self._after)
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
        )

    def _outcome(self, coordinator: Coordinator, coverage: Coverage) -> Outcome:
        state = coordinator.state
        coordinator.flush(state.at)
        return Outcome(
            state.algorithm.model,
            self._model(state.exact_D),
            self._journal.rest(),
            state.version,
            state.applied,
            coverage,
        )
