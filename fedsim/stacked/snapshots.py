"""A simulation that was interrupted goes on where its last snapshot was taken.

What follows is what would have followed, to the last bit: the snapshot holds who does
what and until when, the results that were computed and not delivered, and what clients
keep. The journal is cut behind it.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.coordinator.records import Closed
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import WITHOUT_UPDATES, Journal, exists, new_coordinator
from fedrun.journal.disk import making_sense_of
from fedrun.journal.recover import load_state
from fedrun.run import Run, differences

_KEPT = 2  # snapshots
_LAYOUT = 6  # of what they hold; another one cannot be read
_SERVER = "server."
# What may be another after an interruption.
_FREE = ("server", "stop", "simulate.engine", "journal", "app", "model")


class Snapshots:
    """Taken between two events, now and then and before an interruption."""

    def __init__(
        self, run: Run, dump: Callable[[Arrays], JSON], seconds: Seconds
    ) -> None:
        """``dump`` tells of all that is not the server's; ``seconds`` are real ones."""
        self._run, self._dump, self._seconds = run, dump, seconds
        self._taken = time.monotonic()
        self.due = False

    def look(self) -> None:
        """Whether it is time for one."""
        self.due = time.monotonic() - self._taken > self._seconds

    def take(self) -> None:
        """Takes one."""
        run = self._run
        scalars, arrays = run.coordinator.state.dump()
        vectors = {f"{_SERVER}{name}": values for name, values in arrays.items()}
        saved = {"layout": _LAYOUT, "server": scalars, "clients": self._dump(vectors)}
        snapshots = run.journal.snapshots
        snapshots.save(run.journal.store.last, saved, vectors)
        for number in snapshots.numbers()[:-_KEPT]:
            snapshots.remove(number)
        self._taken, self.due = time.monotonic(), False


class Saved(NamedTuple):
    """What a snapshot holds beside the server's state, for ``StackedClients.load``."""

    scalars: JSON
    arrays: Mapping[str, Any]


def reopen(config: FederationConfig, spec: ParamSpec) -> tuple[Run, Saved]:
    """The run in the config's journal folder as its last snapshot knew it.

    Raises:
        ConfigError: there is none, or it was told something else.
    """
    folder = config.server.journal
    if not exists(folder):
        raise ConfigError(f"{folder}: there is no run to go on with")
    journal = Journal.open(folder)
    try:
        return _reopened(journal, config, spec)
    except BaseException:
        journal.close()
        raise


def can_go_on(folder: Path) -> bool:
    """Whether :func:`reopen` finds a run here that was interrupted.

    Raises:
        JournalError: there is no run.
    """
    journal = Journal.open(folder, read_only=True)
    try:
        return (
            journal.store.noted(WITHOUT_UPDATES) is not None
            and journal.newest_snapshot() is not None
            and not any(journal.store.find(Closed.__name__))
        )
    finally:
        journal.close()


def _reopened(
    journal: Journal, config: FederationConfig, spec: ParamSpec
) -> tuple[Run, Saved]:
    folder, told = journal.folder, journal.configurations()[-1][1]
    if not journal.store.noted(WITHOUT_UPDATES):
        raise ConfigError(
            f"{folder}: only a simulation of engine stacked can go on, and this run "
            "is none"
        )
    number = journal.newest_snapshot()
    saved, arrays = ({}, {}) if number is None else journal.snapshots.load(number)
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
            "(simulate.engine.snapshot_seconds); start it anew"
        )
    known, initial_D = journal.initial()
    known.require(spec, "this workload's model")
    if number < journal.store.last or journal.loss is not None:
        journal.store.cut(number + 1)
    coordinator = new_coordinator(config, known, initial_D, told.epoch)
    servers = {
        name.removeprefix(_SERVER): values
        for name, values in arrays.items()
        if name.startswith(_SERVER)
    }
    with making_sense_of(str(journal.snapshots.path(number))):
        load_state(coordinator.state, saved["server"], servers)
        clients = Saved(saved["clients"], arrays)
    actions = coordinator.begin(coordinator.state.at)
    return Run(config, told.run_id, journal, coordinator, actions, 0), clients
