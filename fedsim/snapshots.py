"""Snapshots of a simulation, from which an interrupted run is continued.

A continued run equals an uninterrupted one, to the last bit: the snapshot holds what
each client is doing and until when, the results that were computed and not delivered,
and the clients' kept state. Later records are cut off the journal.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.coordinator.events import Closed
from fedcore.errors import ConfigError, CorruptJournalError
from fedcore.params import ParamSpec
from fedcore.trees import Arrays
from fedcore.typing import JSON
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import Journal, exists, new_coordinator
from fedrun.journal.disk import making_sense_of
from fedrun.journal.recover import load_state
from fedrun.run import Run, differences

_log = logging.getLogger("fedsim")

_LAYOUT = 8  # format version of the content; other versions cannot be read
STACKED, ONE_BY_ONE = "in stacks", "one by one"  # engines
_SIMULATION = "simulation"  # file beside the server's state
_CLIENTS = "clients."
# Settings that may differ after an interruption.
_FREE = ("server", "stop", "simulate.engine", "journal", "app", "model")


class Snapshots:
    """Takes snapshots between two events, at intervals and before an interruption."""

    def __init__(self, run: Run, engine: str, dump: Callable[[Arrays], JSON]) -> None:
        """Takes the first one after ``snapshot_seconds``, or a number of records.

        Args:
            run: the run.
            engine: the engine that can continue from them.
            dump: returns everything but the server's state; its vectors go to the
                arrays.
        """
        self._run, self._engine, self._dump = run, engine, dump
        self._seconds = run.config.simulate.engine.snapshot_seconds
        self._taken, self._last = time.monotonic(), run.journal.store.last
        self.due = False

    def look(self) -> None:
        """Notes whether a snapshot is due."""
        records = self._run.journal.store.last - self._last
        is_long_ago = time.monotonic() - self._taken > self._seconds
        self.due = is_long_ago or records >= self._run.config.journal.snapshot_records

    def take(self) -> None:
        """Writes a snapshot; all records so far are in the journal."""
        vectors: Arrays = {}
        clients = self._dump(vectors)
        simulation = {"layout": _LAYOUT, "engine": self._engine, "clients": clients}
        beside = {f"{_CLIENTS}{name}": values for name, values in vectors.items()}
        self._last = self._run.journal.store.last
        self._run.snapshot(self._last, {_SIMULATION: simulation}, beside)
        self._taken, self.due = time.monotonic(), False


class Saved(NamedTuple):
    """The content of a snapshot for the engine's clients, beside the server's state."""

    scalars: JSON
    arrays: Mapping[str, Any]


def reopen(config: FederationConfig, spec: ParamSpec, engine: str) -> tuple[Run, Saved]:
    """Opens the run in the config's journal folder in the state of its last snapshot.

    Args:
        config: the config of the run; ``stop`` and places of files may differ.
        spec: the spec of the workload's model.
        engine: the engine that is to continue the run.

    Raises:
        ConfigError: there is no such run, or it has other settings.
    """
    folder = config.server.journal
    if not exists(folder):
        raise ConfigError(f"{folder}: there is no run to go on with")
    journal = Journal.open(folder)
    try:
        return _reopen(journal, config, spec, engine)
    except BaseException:
        journal.close()
        raise


def can_go_on(folder: Path) -> bool:
    """Returns whether :func:`reopen` finds an interrupted run in this folder.

    Raises:
        JournalError: there is no run.
    """
    journal = Journal.open(folder, read_only=True)
    try:
        return (
            not any(journal.store.find(Closed.__name__))
            and _newest(journal) is not None
        )
    finally:
        journal.close()


def _newest(journal: Journal) -> tuple[int, JSON, Mapping[str, Any]] | None:
    """Returns the newest snapshot that a simulation took; None if there is none."""
    for number in reversed(journal.snapshots.numbers()):
        try:
            scalars, arrays = journal.snapshots.load(number)
        except CorruptJournalError as error:
            _log.warning("%s; going back to an older snapshot", error)
            continue
        if number <= journal.store.last and _SIMULATION in scalars:
            return number, scalars, arrays
    return None


def _reopen(
    journal: Journal, config: FederationConfig, spec: ParamSpec, engine: str
) -> tuple[Run, Saved]:
    folder, told = journal.folder, journal.configurations()[-1][1]
    number, scalars, arrays = _newest(journal) or (None, {}, {})
    saved = scalars.get(_SIMULATION, {})
    layout = saved.get("layout") if isinstance(saved, dict) else None
    if number is not None and layout != _LAYOUT:
        raise ConfigError(
            f"{folder}: its snapshot was taken by another version of latecomer; go on "
            "with that one, or start the run anew"
        )
    changes = [
        change
        for change in differences(
            parse_config(told.config).model_dump(mode="json"),
            config.model_dump(mode="json"),
        )
        if not change.startswith(_FREE)
    ]
    if changes:
        raise ConfigError(
            f"{folder}: this run began with other settings: {'; '.join(changes)}; put "
            "them back, or start another run"
        )
    for entry in journal.store.find(Closed.__name__):
        assert isinstance(entry.record, Closed)
        raise ConfigError(f"{folder}: this run has ended: {entry.record.reason}")
    if number is None:
        raise ConfigError(
            f"{folder}: the run was interrupted before its first snapshot "
            "(simulate.engine.snapshot_seconds), or is no simulation; start it anew"
        )
    if saved.get("engine") != engine:
        raise ConfigError(
            f"{folder}: this run was simulated {saved.get('engine')}, and cannot go on "
            f"{engine} (simulate.engine)"
        )
    known, initial_D = journal.initial()
    known.require(spec, "this workload's model")
    if number < journal.store.last or journal.loss is not None:
        journal.store.cut(number + 1)
    coordinator = new_coordinator(config, known, initial_D, told.epoch)
    with making_sense_of(str(journal.snapshots.path(number))):
        load_state(coordinator.state, scalars, arrays)
        clients = {
            name.removeprefix(_CLIENTS): values
            for name, values in arrays.items()
            if name.startswith(_CLIENTS)
        }
        restored = Saved(saved["clients"], clients)
    actions = coordinator.begin(coordinator.state.at)
    return Run(config, told.run_id, journal, coordinator, actions, 0), restored
