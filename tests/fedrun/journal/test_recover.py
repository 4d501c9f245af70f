"""Restarts: from which snapshot, how far, and what is asked for in vain."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import Cut, HistoryForked, Stepped
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.rng import Key
from fedrun.journal import Journal, recover, repair
from fedrun.journal.recover import SECRET, WITHOUT_UPDATES, recover_from, secret_of
from fedrun.journal.sqlite import SqliteStore
from fedrun.run import open_run
from tests.fedrun.journal.runs import Written, change, records, written
from tests.served import settings


@contextmanager
def opened(folder: Path) -> Iterator[Journal]:
    """A run, looked at."""
    journal = Journal.open(folder, read_only=True)
    try:
        yield journal
    finally:
        journal.close()


def with_snapshots(folder: Path, **changes: Any) -> Written:
    """Four updates, with a snapshot behind each of the first three."""
    run = Written(folder, **changes)
    for number in range(4):
        run.push(value=float(number + 1))
        if number < 3:
            run.group.snapshot(run.run.journal.store.last)
    run.close()
    return run


def damage(run: Written, *numbers: int) -> None:
    """These snapshots cannot be read."""
    for number in numbers:
        run.run.journal.snapshots.path(number).write_bytes(b"damaged")


def test_a_restart_says_how_it_found_the_state(tmp_path: Path) -> None:
    run = with_snapshots(tmp_path)
    with opened(run.folder) as journal:
        found = recover(journal)
        assert (found.snapshot, found.replayed) == (8, 2)
        assert found.run_id == run.run.run_id
        assert found.coordinator.state.published.digest == run.digest
        whole = recover_from(journal, None)
        assert (whole.snapshot, whole.replayed) == (None, 10)
        assert whole.coordinator.state.dump()[0] == found.coordinator.state.dump()[0]


@pytest.mark.parametrize(
    ("damaged", "snapshot", "replayed"),
    [((8,), 6, 4), ((8, 6), 4, 6), ((8, 6, 4), None, 10)],
)
def test_a_damaged_snapshot_makes_the_way_longer(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damaged: tuple[int, ...],
    snapshot: int | None,
    replayed: int,
) -> None:
    run = with_snapshots(tmp_path)
    damage(run, *damaged)
    with opened(run.folder) as journal:
        found = recover(journal)
    assert (found.snapshot, found.replayed) == (snapshot, replayed)
    assert found.coordinator.state.published.digest == run.digest
    assert caplog.text.count("going back to an older snapshot") == len(damaged)


def test_behind_dropped_payloads_there_is_no_way(tmp_path: Path) -> None:
    run = with_snapshots(tmp_path)
    store = SqliteStore(run.folder)
    store.drop_payloads(6)
    store.close()
    with opened(run.folder) as journal:
        assert journal.store.first_payload() == 5
        damage(run, 8)
        assert recover(journal).snapshot == 6
        for start in (None, 4):
            with pytest.raises(JournalError, match=r"up to record 5 were dropped \(j"):
                recover_from(journal, start)
        with pytest.raises(JournalError, match="up to record 5 were dropped"):
            recover_from(journal, None, 1)
        # Up to there, nothing of what was dropped is needed.
        assert recover_from(journal, 4, 4).coordinator.state.version == 1
        with pytest.raises(JournalError, match="up to record 5 were dropped"):
            recover_from(journal, 4, 5)
        damage(run, 6)
        with pytest.raises(CorruptJournalError, match="snapshot 6: "):
            recover(journal)


def test_a_snapshot_may_hold_just_what_was_dropped(tmp_path: Path) -> None:
    run = Written(tmp_path, algorithm={"kind": "fed_buff", "buffer": 2})
    for number in range(4):
        run.push()
        if number > 1:
            run.group.snapshot(run.run.journal.store.last)
    run.run.journal.store.drop_payloads(6)
    run.close()
    damage(run, 8)
    with opened(run.folder) as journal:
        assert (journal.store.first_payload(), recover(journal).snapshot) == (6, 6)


def test_behind_a_snapshot_the_settings_of_its_time_hold(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(4)
    run.push()
    run.close()
    slower = {"server": {"kind": "sgd", "lr": 0.5}}
    config = settings(tmp_path, algorithm=slower)
    open_run(config, 9.0, amend=True).journal.close()
    more = Written(tmp_path, algorithm=slower)
    more.push()
    more.group.snapshot(more.run.journal.store.last)
    more.push()
    more.close()
    with opened(run.folder) as journal:
        for start in (None, *journal.snapshots.numbers()):
            found = recover_from(journal, start).coordinator
            assert found.state.published.digest == more.digest
            assert found.algorithm.config == config.algorithm


def test_a_restart_draws_with_the_seed_of_the_run(tmp_path: Path) -> None:
    run = written(tmp_path, seed=7)
    with opened(run.folder) as journal:
        found = recover(journal).coordinator
    assert (
        found.rounds.key
        == run.run.coordinator.rounds.key
        == Key.root(7).fold_in("server")
    )


@pytest.mark.parametrize("start", [None, 4, 6])
def test_a_run_can_be_recovered_up_to_a_record(
    tmp_path: Path, start: int | None
) -> None:
    run = with_snapshots(tmp_path)
    with opened(run.folder) as journal:
        for until in (6, 7, 8):
            found = recover_from(journal, start, until)
            assert found.replayed == until - (start or 0)
            assert found.coordinator.state.version == until // 2 - 1


def test_a_damaged_record_is_no_matter_of_snapshots(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number = 3")
    with (
        opened(run.folder) as journal,
        pytest.raises(CorruptJournalError, match="record 3: its checksum is wrong"),
    ):
        recover(journal)


def test_a_run_without_updates_cannot_be_recovered(tmp_path: Path) -> None:
    run = written(tmp_path)
    store = SqliteStore(run.folder)
    store.note(WITHOUT_UPDATES, "yes")
    store.close()
    with (
        opened(run.folder) as journal,
        pytest.raises(JournalError, match=r"but no updates. Simulate it again"),
    ):
        recover(journal)


def test_proofs_are_made_with_the_secret_of_the_run(tmp_path: Path) -> None:
    run = written(tmp_path)
    with opened(run.folder) as journal:
        secret = secret_of(journal)
        assert secret is not None
        assert journal.store.read_fact(SECRET) == secret.hex()
        found = recover(journal).coordinator
        assert found.proofs._secret == run.run.coordinator.proofs._secret == secret
    for told in (None, "no digits"):
        store = SqliteStore(run.folder)
        store.note(SECRET, told)
        store.close()
        with opened(run.folder) as journal:
            if told is None:
                assert secret_of(journal) is None
                continue
            with pytest.raises(
                CorruptJournalError, match="the fact 'secret' is damaged"
            ):
                secret_of(journal)


# ------------------------------------------------------------------------ repairs


def test_a_repair_says_what_it_did_and_opens_a_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number = 5")
    wrong = (
        "record 5 is damaged and sound records follow it: its checksum is wrong "
        "(payload in its row)"
    )
    assert repair(run.folder, "e" * 16) == (
        f"{run.folder}: {wrong}\nthe journal ends with record 4 now; what came after "
        f"it is kept in {run.folder / 'cut'}; the new history is {'e' * 16}"
    )
    *before, cut, opened_anew = records(run.folder)
    assert isinstance(before[-1], Stepped)
    assert len(before) == 4
    assert isinstance(cut, Cut)
    assert isinstance(opened_anew, HistoryForked)
    assert (opened_anew.epoch, opened_anew.version) == ("e" * 16, 1)
    assert opened_anew.reason == f"the journal was repaired: {wrong}"
    assert opened_anew.at == cut.at == before[-1].at
    kept = run.folder / "cut" / "000000000005"
    assert f"the journal was repaired: {wrong}; it is kept in {kept}" in caplog.text
    assert repair(run.folder, "f" * 16) == f"{run.folder}: there is nothing to repair"
    Written(tmp_path).close()  # nothing is locked


def test_a_torn_end_is_told_with_its_length(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number > 5")
    again = Written(tmp_path)
    again.close()
    left = again.run.actions
    assert not any(isinstance(action, Persist) for action in left)  # it is on disk
    said = "3 damaged records were cut off the end of the journal"
    assert said in caplog.text
    assert [each.reason for each in records(run.folder)[6:]] == [said]
