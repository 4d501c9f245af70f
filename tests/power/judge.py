"""Starts the real code on a disk that a power cut left, and says what is wrong."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fedclient.state.store import ClientStore
from fedcore.coordinator.events import ClientEnrolled, Decided, Stepped
from fedcore.errors import JournalError, LatecomerError
from fedrun.commit import GroupCommit
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import Journal, backup, exists, recover, repair, restore
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.store import Row as Record
from fedrun.journal.store import from_row, to_row
from fedrun.run import Run, open_run
from tests.power.kept import check_kept
from tests.power.promises import (
    ClientPromise,
    CopyPromise,
    JournalPromise,
    Promises,
    Row,
    fingerprint,
    verdicts_in,
)
from tests.protocol.ghost import ServerGhost, ViolationError, differ

Rows = list[Row]
LATER = 1e6  # seconds: after all that was recorded


@dataclass
class History:
    """What follows from the rows of a journal; computed once, row by row."""

    rows: list[Row] = field(default_factory=list)
    ghosts: list[ServerGhost] = field(default_factory=lambda: [ServerGhost()])
    records: list[Record] = field(default_factory=list)

    def ghost(self, rows: Sequence[Row], count: int) -> ServerGhost:
        """X, W and the buffer after so many rows."""
        known = min(count, len(self.rows))
        same = next((n for n in range(known) if self.rows[n] is not rows[n]), known)
        if same < known:  # what was not promised was replaced
            del self.rows[same:], self.records[same:], self.ghosts[same + 1 :]
        for row in rows[len(self.rows) : count]:
            kind, body, payload = row
            record = from_row(kind, body, bytes.fromhex(payload))
            self.rows.append(row)
            self.records.append(record)
            self.ghosts.append(_after(self.ghosts[-1], record))
        return self.ghosts[count]


def _after(ghost: ServerGhost, record: Record) -> ServerGhost:
    changed = copy(ghost)
    for name, value in vars(ghost).items():  # each ghost counts for itself
        if isinstance(value, dict | list | set):
            setattr(changed, name, copy(value))
    changed.apply(record)
    return changed


class Judge:
    """Demands that everything promised is there, once, and that it starts by itself."""

    def __init__(self) -> None:
        self._histories: dict[str, History] = {}

    def check(self, promises: Promises, *, go_on: bool = False) -> str | None:
        """What is wrong with the disk as it lies there; None if nothing is."""
        try:
            for file, journal in promises.journals.items():
                history = self._histories.setdefault(file, History())
                _check_run(Path(file).parent, journal, history, promises, go_on=go_on)
            for folder, copy in promises.backups.items():
                self._check_backup(Path(folder), copy, promises)
            for folder, copy in promises.restored.items():
                self._check_restored(Path(folder), copy, promises)
            for file, client in promises.clients.items():
                _check_client(Path(file).parent, client)
        except ViolationError as error:
            return str(error)
        return None

    def _check_backup(self, folder: Path, copy: CopyPromise, all_: Promises) -> None:
        """A backup that is there can be restored; one that is not can be made."""
        if copy.making:
            run = Path(copy.source).parent
            _does_not_fail("the run cannot be copied now", lambda: backup(run, folder))
        elif not copy.made:
            return
        target = folder.parent / "judged"
        _does_not_fail(
            f"{folder} cannot be restored",
            lambda: restore(folder, target, lambda: "e" * 16),
        )
        self._check_copy(target, copy.source, copy.made, "e" * 16, all_)
        shutil.rmtree(target)

    def _check_restored(self, folder: Path, copy: CopyPromise, all_: Promises) -> None:
        """A run that was restored is served; one that was not can be restored."""
        backup_of = all_.backups[copy.source]
        epoch = copy.epoch
        if copy.making:
            found = _epoch_of(folder)
            if found is None:
                epoch = "d" * 16
                _does_not_fail(
                    f"{folder} cannot be restored now",
                    lambda: restore(Path(copy.source), folder, lambda: epoch),
                )
            else:
                epoch = found
        self._check_copy(folder, backup_of.source, backup_of.made, epoch, all_)

    def _check_copy(
        self, folder: Path, source: str, least: int, epoch: str, all_: Promises
    ) -> None:
        promise = all_.journals[source]
        history = self._histories.setdefault(source, History())

        def check() -> None:
            with closing(Journal.open(folder)) as journal:
                state = recover(journal).coordinator.state
                rows = [to_row(entry.record)[:2] for entry in journal.entries()]
                count = len(rows) - 1  # the last one opens the new epoch
                # A copy that was made just now may have what that start wrote, too.
                told = [row[:2] for row in promise.rows][:count]
                if count < least or rows[: len(told)] != told:
                    raise ViolationError(
                        f"{folder} has {count} records, promised were {least}, or "
                        "others than the run"
                    )
                if state.epoch != epoch:
                    raise ViolationError(f"{folder} is in epoch {state.epoch}")
                if count > len(told):
                    return
                ghost = history.ghost(promise.rows, count)
                if differ(state.exact_D, ghost.exact, ghost.tolerance):
                    raise ViolationError(f"{folder} holds another model")

        _does_not_fail(f"{folder} does not start", check)


def _epoch_of(folder: Path) -> str | None:
    """The history of a run that is served; None if it has to be restored anew."""
    try:
        with closing(Journal.open(folder)) as journal:
            return str(recover(journal).coordinator.state.epoch)
    except JournalError:
        return None


def _check_run(
    folder: Path,
    promise: JournalPromise,
    history: History,
    promises: Promises,
    *,
    go_on: bool,
) -> None:
    if not exists(folder):
        if promise.rows:
            raise ViolationError(f"{folder} is gone with {len(promise.rows)} records")
        return
    if promise.first is None:
        return  # nobody has said yet what is to run here
    config = parse_config(json.loads(promise.first[1])["config"])
    with _noting_first_writes() as wrote:
        run = _start(config, promise, wrote)
    try:
        count = wrote.appended[0] if wrote.appended else run.journal.store.last
        rows = _check_rows(run, promise, count, wrote.cut)
        ghost = history.ghost(rows, count)
        for entry in run.journal.entries(count):
            ghost = _after(ghost, entry.record)
        _check_state(run, ghost)
        gone = check_kept(folder, run, promise, rows)
        _check_said(history.records[:count], promises, verdicts_in(gone))
        if go_on:
            _does_not_fail(f"{folder} does not go on", lambda: _go_on(run))
    finally:
        run.journal.close()
    if go_on or promise.damage is not None:
        with _noting_first_writes() as wrote:
            again = _does_not_fail(
                f"{folder} starts once", lambda: open_run(config, LATER)
            )
        again.journal.close()
        if wrote.cut:
            raise ViolationError(f"{folder} was cut, and is cut again at each start")


@dataclass
class _Wrote:
    """What a start wrote first."""

    appended: list[int] = field(default_factory=list)  # how many records there were
    cut: list[int] = field(default_factory=list)  # the records that were cut off first


@contextmanager
def _noting_first_writes() -> Iterator[_Wrote]:
    append, cut, wrote = SqliteStore.append, SqliteStore.cut, _Wrote()

    def noting(store: SqliteStore, records: Any, *facts: Any) -> int:
        wrote.appended.append(store.last)
        return append(store, records, *facts)

    def noting_cut(store: SqliteStore, number: int, *rest: Any) -> int:
        wrote.cut.append(number)
        return cut(store, number, *rest)

    with (
        patch.object(SqliteStore, "append", noting),
        patch.object(SqliteStore, "cut", noting_cut),
    ):
        yield wrote


def _start(config: FederationConfig, promise: JournalPromise, wrote: _Wrote) -> Run:
    """A run starts by itself; one that is damaged may want a repair before."""
    folder, damage = config.server.journal, promise.damage
    try:
        run = open_run(config, LATER)
    except JournalError as error:
        if damage is None or (damage.durable and damage.kind == "end"):
            raise ViolationError(f"{folder} does not start: {error}") from error
    except (LatecomerError, OSError, ValueError, KeyError) as error:
        raise ViolationError(
            f"{folder} does not start: {type(error).__name__}: {error}"
        ) from error
    else:
        if wrote.cut and (damage is None or (damage.durable and damage.kind != "end")):
            run.journal.close()
            raise ViolationError(f"{folder} was cut by itself")
        return run
    _does_not_fail(
        f"{folder} is not repaired", lambda: repair(config.server.journal, "c" * 16)
    )
    repaired: Run = _does_not_fail(
        f"{folder} does not start once it is repaired", lambda: open_run(config, LATER)
    )
    return repaired


def _does_not_fail(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (LatecomerError, OSError, ValueError, KeyError) as error:
        raise ViolationError(f"{what}: {type(error).__name__}: {error}") from error


def _check_rows(
    run: Run, promise: JournalPromise, count: int, cut: list[int]
) -> list[Row]:
    """The journal holds all that was promised, and at most one transaction more."""
    if not cut and promise.cutting is None and count < len(promise.rows):
        raise ViolationError(f"{count} records of {len(promise.rows)} promised ones")
    dropped = run.journal.store.first_payload()

    def read() -> list[Row]:
        rows = []
        for number, record in run.journal.entries():
            if number <= count:
                kind, body, payload = to_row(record)
                rows.append((kind, body, bytes(payload).hex()))
        return rows

    found = _does_not_fail("a record cannot be read", read)
    for told in _possible(promise, found, cut):
        if len(told) == count and all(
            have == want or (n <= dropped and have == (*want[:2], ""))
            for n, (have, want) in enumerate(zip(found, told, strict=True), 1)
        ):
            return told
    raise ViolationError(f"these {count} records are not what was written")


def _possible(promise: JournalPromise, found: list[Row], cut: list[int]) -> list[Rows]:
    """The rows that a start may find, or may have made by a cut."""
    damage = promise.damage
    if cut:
        assert damage is not None
        [first] = cut
        if first < damage.first or (damage.durable and first > damage.first):
            raise ViolationError(f"cut at record {first}, damaged is {damage.first}")
        return [promise.rows[: first - 1] + found[first - 1 :]]
    possible = []
    if damage is None or not damage.durable:
        possible += [promise.rows + tail for tail in ([], *promise.tails)]
    if promise.cutting is not None:
        possible.append(promise.after(promise.cutting))
    return possible


def _check_state(run: Run, ghost: ServerGhost) -> None:
    state = run.coordinator.state
    for what, have, want in (
        ("X", state.exact_D, ghost.exact),
        ("W", state.published.public_D, ghost.public),
        ("the buffer", state.buffer, ghost.waiting),
    ):
        if differ(have, want, ghost.tolerance):
            raise ViolationError(f"{what} is not what the records say")


def _check_said(
    records: Sequence[Record], promises: Promises, gone: set[tuple[str, int, str]]
) -> None:
    """Every verdict and version that anybody saw is there, once, but what was cut."""
    verdicts: dict[tuple[str, int, str], list[str]] = {}
    versions: dict[int, list[str]] = {}
    for record in records:
        if isinstance(record, Decided):
            name = (record.cid, record.seq, record.digest)
            verdicts.setdefault(name, []).append(record.verdict.value)
        elif isinstance(record, Stepped):
            versions.setdefault(record.version, []).append(record.digest)
    for name, verdict in promises.verdicts.items():
        if name not in gone and verdicts.get(name) != [verdict]:
            raise ViolationError(
                f"{name} was told {verdict}, the journal says {verdicts.get(name)}"
            )
    for version, digest in promises.versions.items():
        if version and versions.get(version) != [digest]:
            raise ViolationError(f"version {version} was {digest}, and is not there")


def _go_on(run: Run) -> None:
    """The server takes a new client, exports and writes a snapshot."""
    group = GroupCommit(run)
    group.feed(ClientEnrolled(at=LATER, cid="late", name="late"))
    group.commit(lazy_too=True)
    group.snapshot(run.journal.store.last)


def _check_client(folder: Path, promise: ClientPromise) -> None:
    if None in promise.states and not folder.exists():
        return

    def load() -> str | None:
        store = ClientStore(folder)
        try:
            state = store.load()
        finally:
            store.close()
        return None if state is None else fingerprint(state)

    found = _does_not_fail(f"{folder} does not load", load)
    if found not in promise.states:
        raise ViolationError(f"{folder} holds another state than the one saved last")
