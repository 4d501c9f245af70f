"""Between the coordinator and the disk: what leaves when, and what is written."""

import time
from pathlib import Path
from typing import Any

import pytest

from fedcore.coordinator.actions import SendAck, SendReply, SetTimer
from fedcore.coordinator.events import ClientEnrolled, ClientPulled, Enrolled, Stepped
from fedcore.errors import DiskError
from fedcore.protocol import Pull
from fedrun.commit import GroupCommit
from tests.fedrun.journal.runs import Written, records


def enrolled(cid: str = "ann") -> ClientEnrolled:
    return ClientEnrolled(at=1.0, cid=cid, name=cid)


def pulled(run: Written, cid: str = "ann") -> ClientPulled:
    pull = Pull(cid=cid, nonce=1, epoch=run.run.coordinator.state.epoch)
    return ClientPulled(at=1.0, pull=pull, fresh_epoch="f" * 16)


def stored(run: Written, kind: type) -> list[Any]:
    """What is on disk, of one kind."""
    run.close()
    return [record for record in records(run.folder) if isinstance(record, kind)]


def test_nothing_leaves_before_the_commit_and_then_it_leaves_once(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path)
    run.group.commit()
    before = run.run.journal.store.last
    run.group.feed(enrolled())
    run.group.feed(pulled(run))
    assert run.run.journal.store.last == before
    actions = run.group.commit()
    assert run.run.journal.store.last > before
    assert any(isinstance(action, SendReply) for action in actions)
    assert run.group.commit() == []
    run.close()


def test_the_actions_with_which_a_run_opens_leave_with_the_first_commit(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path, stop={"seconds": 30.0})
    assert [type(action) for action in run.group.commit()] == [SetTimer]
    run.close()


def test_a_commit_says_how_much_waits_and_for_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = Written(tmp_path)
    run.group.commit(lazy_too=True)
    assert run.group.lag == (0, 0.0)
    for number, name in enumerate(("ann", "bob"), 1):
        run.group.feed(enrolled(name))
        now[0] += 3.0
        assert run.group.lag == (number, 3.0 * number)  # of the oldest
    run.group.commit()
    assert run.group.lag == (0, 0.0)
    run.close()


def test_a_snapshot_that_is_due_waits_for_a_whole_state(tmp_path: Path) -> None:
    run = Written(tmp_path, journal={"snapshot_records": 2})
    run.group.commit(lazy_too=True)
    numbers = run.run.journal.snapshots.numbers
    before = numbers()
    run.group.feed(enrolled("ann"))
    run.group.feed(enrolled("bob"))
    run.group.commit(is_whole=False)
    assert numbers() == before
    run.group.feed(enrolled("eve"))
    run.group.commit()
    assert numbers()[-1] == run.run.journal.store.last
    run.close()


def test_actions_of_which_the_disk_failed_do_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path)
    run.group.feed(enrolled())

    def full(records: object) -> int:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(run.run.journal, "append", full)
        with pytest.raises(OSError, match="full"):
            run.group.commit()
    run.close()


def test_records_that_only_tell_the_story_wait_for_one_that_must_be_durable(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path)
    run.push()  # everybody is known now
    before = run.run.journal.store.last
    run.group.feed(pulled(run))
    assert run.group.commit()  # the task is given
    assert run.run.journal.store.last == before  # and the lease is not on disk yet
    run.push()
    assert run.run.journal.store.last > before + 1
    between = run.run.journal.store.last
    run.group.feed(pulled(run))
    run.group.commit(lazy_too=True)
    assert run.run.journal.store.last == between + 1
    run.close()
    again = Written(tmp_path)
    before = again.run.journal.store.last
    again.group.feed(pulled(again))
    again.group.commit()  # as after a restart
    assert again.run.journal.store.last == before
    again.close()


def test_records_are_shown_once_when_they_are_durable(tmp_path: Path) -> None:
    run = Written(tmp_path)
    shown: list[Any] = []
    run.group = GroupCommit(run.run, shown.append)
    run.group.feed(enrolled())
    assert shown == []
    run.group.commit()
    run.group.commit()
    assert [[type(record) for record in batch] for batch in shown] == [[Enrolled]]
    run.close()


def test_a_state_is_written_after_so_many_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path, journal={"snapshot_records": 10})
    snapshots: list[int] = []
    save = run.run.journal.save_snapshot

    def noted(number: int, *rest: Any) -> None:
        assert number == run.run.journal.store.last
        snapshots.append(number)
        save(number, *rest)

    monkeypatch.setattr(run.run.journal, "save_snapshot", noted)
    first = run.run.journal.store.last
    for _ in range(30):
        run.push()
    last = run.run.journal.store.last
    gaps = [b - a for a, b in zip([first, *snapshots], snapshots, strict=False)]
    assert len(snapshots) > 2
    assert all(10 <= gap <= 12 for gap in gaps)  # a push makes up to three records
    assert last - snapshots[-1] < 10
    run.group.snapshots, written = False, len(snapshots)
    for _ in range(30):
        run.push()
    assert len(snapshots) == written
    run.close()


def enrol(run: Written, count: int) -> None:
    """So many records, each in a commit of its own."""
    for _ in range(count):
        known = len(run.run.coordinator.state.clients)
        run.group.feed(enrolled(f"client {known}"))
        run.group.commit()


def snapshots_of(run: Written, first: int) -> list[int]:
    """How many records each snapshot holds that were made behind the first one."""
    return [number - first for number in run.run.journal.snapshots.numbers()]


def test_a_state_is_written_with_the_very_record_that_is_due(tmp_path: Path) -> None:
    run = Written(tmp_path, journal={"snapshot_records": 10})
    first = run.run.journal.store.last
    for count, written in ((9, []), (1, [10]), (9, [10]), (1, [10, 20])):
        enrol(run, count)
        assert snapshots_of(run, first) == written
    run.close()


@pytest.mark.parametrize(("every", "sooner"), [(100, 10), (5, 1)])
def test_a_state_that_was_not_written_is_tried_again_sooner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    every: int,
    sooner: int,
) -> None:
    run = Written(tmp_path, journal={"snapshot_records": every})
    first = run.run.journal.store.last

    def full(*_: object) -> None:
        raise DiskError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(run.run.journal, "save_snapshot", full)
        enrol(run, every)
    assert "no snapshot was written: the disk is full" in caplog.text
    enrol(run, sooner - 1)
    assert snapshots_of(run, first) == []
    enrol(run, 1)
    assert snapshots_of(run, first) == [every + sooner]
    enrol(run, every - 1)  # and from then on as usual
    assert snapshots_of(run, first) == [every + sooner]
    enrol(run, 1)
    assert snapshots_of(run, first) == [every + sooner, 2 * every + sooner]
    run.close()


def test_at_the_end_the_state_is_written_and_what_the_disk_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path, stop={"versions": 1})
    model = run.folder / "models" / "last.safetensors"

    def full(*_: object, **__: object) -> None:
        raise DiskError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr("fedrun.checkpoints.save_model", full)
        run.push()
    assert run.run.coordinator.state.closed
    assert not model.exists()
    assert run.run.journal.snapshots.numbers() == []
    run.group.finish()
    assert model.exists()
    assert run.run.journal.snapshots.numbers() == [run.run.journal.store.last]
    run.close()


def test_a_restart_from_a_snapshot_gives_the_same_state(tmp_path: Path) -> None:
    run = Written(tmp_path, journal={"snapshot_records": 7})
    for number in range(20):
        run.push(value=float(number))
    digest, state = run.digest, run.run.coordinator.state.dump()[0]
    run.close()
    again = Written(tmp_path, journal={"snapshot_records": 7})
    assert again.run.recovered is not None
    assert again.run.recovered < 10
    assert again.digest == digest
    assert again.run.coordinator.state.dump()[0]["clients"] == state["clients"]
    again.close()


def test_a_version_can_be_asked_for(tmp_path: Path) -> None:
    run = Written(tmp_path, algorithm={"kind": "fed_buff", "buffer": 5})
    run.push()
    before = run.run.coordinator.state.version
    run.group.step(1.0, "flush")
    run.group.commit()
    assert run.run.coordinator.state.version == before + 1
    assert len(stored(run, Stepped)) == 1


def test_notes_keep_records_for_later_and_hand_back_the_rest(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.group.commit()
    run.group.feed(enrolled("bob"))
    run.group.feed(pulled(run, "bob"))  # its reply waits for the commit
    before = run.run.journal.store.last
    coordinator = run.run.coordinator
    rest = run.group.note(coordinator.handle(enrolled("ann")))
    assert not any(isinstance(action, SendReply) for action in rest)
    assert run.run.journal.store.last == before
    actions = run.group.commit()
    assert [a.cid for a in actions if isinstance(a, SendReply | SendAck)] == ["bob"]
    assert {record.cid for record in stored(run, Enrolled)} == {"ann", "bob"}
