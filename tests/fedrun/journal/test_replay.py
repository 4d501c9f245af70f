"""Replays: every record is made anew of what stands in it."""

import contextlib
import random
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore import algorithm as limits
from fedcore import payloads
from fedcore.coordinator import events as r
from fedcore.coordinator.events import (
    ClientEnrolled,
    Departed,
    Event,
    Evicted,
    Freed,
    Paused,
    Readmitted,
    SnapshotOrdered,
    StateRolledBack,
    StopRequested,
    Unpaused,
    UpdatePushed,
)
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import content_digest
from fedcore.payloads import dense_payload
from fedcore.protocol import NOTHING_SETTLED, ModelName, Push, Verdict
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import Journal, recover, verify
from fedrun.journal.replay import Replay
from fedrun.journal.restored import Restored
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.store import to_row
from fedrun.journal.verification import Verified
from fedrun.run import open_run
from tests.fedrun.journal.runs import Written, written
from tests.served import settings


class Story(Written):
    """A run in which one thing of each kind happens."""

    def happens(self, event: Event) -> None:
        self.group.feed(event)
        self.group.commit(lazy_too=True)

    def deliver(self, cid: str, value: float, **told: Any) -> None:
        """An update that tells more than it must."""
        state, proofs = self.run.coordinator.state, self.run.coordinator.proofs
        self.seq[cid] = self.seq.get(cid, 0) + 1
        payload = told.pop("payload", None)
        if payload is None:
            update_D = np.full(self.dim, value, np.float32)
            payload = payloads.pack(dense_payload(update_D))
        base = told.get("base", ModelName(state.epoch, state.version))
        given: dict[str, Any] = {
            "cid": cid,
            "epoch": state.epoch,
            "seq": self.seq[cid],
            "task": proofs.task(state.epoch, cid, base.version, state.clients[cid].seq),
            "base": base,
            "payload": payload,
            "digest": content_digest(payload),
            "settled": NOTHING_SETTLED,
            "samples": 3,
            "steps": 4,
            "update_norm": 0.5,
            "memory_norm": 0.25,
            "oldest": ModelName(state.epoch, state.version),
            "counts": np.array([1, 2], np.int64),
            "loss": 0.125,
        }
        self.happens(UpdatePushed(at=state.at + 1, push=Push(**{**given, **told})))


def told(folder: Path) -> Story:
    """A run with everything in it that a replay knows."""
    run = Story(folder, algorithm={"kind": "fed_buff", "buffer": 2})
    for index, cid in enumerate(("ann", "bob", "eve")):
        run.happens(
            ClientEnrolled(
                at=1.0 + index,
                cid=cid,
                name=f"name of {cid}",
                role="evaluator" if cid == "eve" else "trainer",
                index=index,
                count=3,
                owner=f"owner of {cid}",
            )
        )
    run.happens(
        ClientEnrolled(
            at=4.0, cid="kim", name="name of ann", owner="ann anew", certified=True
        )
    )
    state = run.run.coordinator.state
    run.deliver("ann", 1.0)
    base = ModelName(state.epoch, 0)
    run.deliver("bob", 2.0, samples=5, oldest=None, counts=None, loss=None)
    run.deliver("bob", 3.0, base=base, oldest=base)  # it is late
    run.deliver("ann", 0.0, payload=b"nothing of sense")
    run.deliver("ann", float("nan"))
    run.group.step(20.0, "flush")
    run.group.commit()
    run.happens(Freed(at=21.0, name="name of bob"))
    run.happens(Paused(at=21.1, by="root", reason="so"))
    run.happens(Unpaused(at=21.2, by="root"))
    run.happens(Evicted(at=21.3, name="name of eve", reason="so"))
    run.happens(Readmitted(at=21.4, name="name of eve"))
    run.happens(Evicted(at=21.5, name="name of eve"))
    run.happens(SnapshotOrdered(at=21.6, by="root"))
    run.happens(
        StateRolledBack(at=22.0, fresh_epoch="e" * 16, reason="somebody wished it")
    )
    run.deliver("ann", 4.0)
    run.group.step(30.0, "deadline")
    run.group.commit()
    run.deliver("bob", 5.0)
    run.happens(Departed(at=40.0, cid="ann"))
    run.happens(StopRequested(at=50.0, reason="the operator stopped it"))
    run.close()
    return run


def entries(folder: Path) -> list[Any]:
    """All that can be made anew, as it stands in the journal."""
    journal = Journal.open(folder, read_only=True)
    try:
        return [entry.record for entry in journal.entries()]
    finally:
        journal.close()


def test_every_record_leads_to_itself(tmp_path: Path) -> None:
    run = told(tmp_path)
    journal = Journal.open(run.folder, read_only=True)
    replay = Replay(journal)
    now: list[Any] = []
    recorded: list[Any] = []
    for record, made in replay.run():
        recorded.append(record)
        now += made
    expected = [
        record
        for record in recorded
        if not (isinstance(record, r.Decided) and not record.payload)
    ]
    kinds = {type(record).__name__ for record in expected}
    assert kinds == {
        "Enrolled", "Freed", "Decided", "Stepped", "HistoryForked", "Closed",
        "Departed", "Paused", "Unpaused", "Evicted", "Readmitted", "SnapshotOrdered",
    }  # fmt: skip
    assert [to_row(record) for record in now] == [to_row(record) for record in expected]
    state, found = recover(journal).coordinator.state, replay.coordinator.state
    assert found.published.digest == state.published.digest
    assert found.dump()[0] == state.dump()[0]
    journal.close()


def test_verify_says_what_it_found(tmp_path: Path) -> None:
    run = told(tmp_path)
    journal = Journal.open(run.folder, read_only=True)
    everything = entries(run.folder)
    decided = [each for each in everything if isinstance(each, r.Decided)]
    accepted = [each for each in decided if each.verdict is Verdict.ACCEPTED]
    steps = [each for each in everything if isinstance(each, r.Stepped)]
    malformed = [each for each in decided if each.verdict is Verdict.REJECTED_MALFORMED]
    assert malformed
    state = run.run.coordinator.state
    expected = Verified(
        records=len(everything),
        versions=state.version,
        accepted=len(accepted),
        applied=state.applied,
        waiting=state.count,
        recomputed=len(decided) - len(malformed) + len(steps),
        digest=run.digest,
    )
    assert verify(journal) == expected
    assert verify(journal, decisions=False) == replace(expected, recomputed=0)
    journal.close()


def test_the_waiting_updates_of_a_buffer_are_counted(tmp_path: Path) -> None:
    run = Written(tmp_path, algorithm={"kind": "fed_buff", "buffer": 3})
    for _ in range(5):
        run.push()
    run.close()
    journal = Journal.open(run.folder, read_only=True)
    found = verify(journal)
    assert (found.waiting, found.accepted, found.applied) == (2, 5, 3)
    journal.close()


# -------------------------------------------------------------- what is not as it was


def rewritten(run: Written, change_it: Any) -> Journal:
    """The run with other records in it, whose checksums are right."""
    rows = [change_it(record) for record in entries(run.folder)]
    with_store = SqliteStore(run.folder)
    with_store.cut(1, [row for row in rows if row is not None])
    with_store.close()
    return Journal.open(run.folder, read_only=True)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (
            {"weight": 0.25},
            "decided again, message 3 of ann (accepted, 0.25) becomes message 3 of ann "
            "(accepted, 1.0)",
        ),
        ({"staleness": 7}, "decided again, message 3 of ann (accepted, 1.0) becomes"),
    ],
)
def test_a_decision_that_is_made_otherwise_is_told(
    tmp_path: Path, what: dict[str, Any], words: str
) -> None:
    run = Written(tmp_path, algorithm={"kind": "fed_buff", "buffer": 9})
    for _ in range(3):
        run.push()
    run.close()

    def other(record: Any) -> Any:
        is_it = isinstance(record, r.Decided) and record.seq == 3
        return replace(record, **what) if is_it else record

    journal = rewritten(run, other)
    with pytest.raises(CorruptJournalError) as caught:
        verify(journal)
    assert f"{run.folder}: {words}" in str(caught.value)
    assert verify(journal, decisions=False).recomputed == 0
    journal.close()


def test_a_version_of_another_digest_is_told(tmp_path: Path) -> None:
    run = written(tmp_path)

    def other(record: Any) -> Any:
        is_it = isinstance(record, r.Stepped) and record.version == 2
        return replace(record, digest="0" * 64) if is_it else record

    journal = rewritten(run, other)
    with pytest.raises(CorruptJournalError) as caught:
        verify(journal)
    assert f"record 6: version 2 should have digest {'0' * 64}, the" in str(
        caught.value
    )
    journal.close()


def test_a_version_that_is_made_otherwise_is_told(tmp_path: Path) -> None:
    run = written(tmp_path)

    def other(record: Any) -> Any:
        is_it = isinstance(record, r.Stepped) and record.version == 2
        return replace(record, samples=9.0) if is_it else record

    journal = rewritten(run, other)
    digest = next(
        each.digest
        for each in entries(run.folder)
        if isinstance(each, r.Stepped) and each.version == 2
    )
    with pytest.raises(CorruptJournalError) as caught:
        verify(journal)
    brief = f"version 2 (buffer, {digest})"
    assert f"decided again, {brief} becomes {brief}" in str(caught.value)
    journal.close()


def test_a_version_that_nobody_made_is_told(tmp_path: Path) -> None:
    run = Written(tmp_path, algorithm={"kind": "fed_buff", "buffer": 2})
    for _ in range(2):
        run.push()
    run.close()
    journal = rewritten(run, lambda each: None if isinstance(each, r.Stepped) else each)
    with pytest.raises(CorruptJournalError) as caught:
        verify(journal)
    assert "2 decisions were recorded, and 3 are made now" in str(caught.value)
    journal.close()


def test_a_message_that_counts_twice_is_told(tmp_path: Path) -> None:
    run = Written(tmp_path, algorithm={"kind": "fed_buff", "buffer": 9})
    for _ in range(2):
        run.push("ann")
        run.push("bob")
    run.close()

    def other(record: Any) -> Any:
        is_it = isinstance(record, r.Decided) and (record.cid, record.seq) == ("bob", 2)
        return replace(record, seq=1) if is_it else record

    journal = rewritten(run, other)
    with pytest.raises(CorruptJournalError, match="message 1 of bob counts twice"):
        verify(journal, decisions=False)
    journal.close()


def test_what_was_dropped_without_a_snapshot_cannot_be_verified(tmp_path: Path) -> None:
    run = written(tmp_path)
    with closing(Journal.open(run.folder)) as whole:
        whole.store.drop_payloads(7)
    journal = Journal.open(run.folder, read_only=True)
    with pytest.raises(CorruptJournalError, match="up to record 7 were dropped, and t"):
        verify(journal)
    with pytest.raises(JournalError, match="up to record 7 were dropped"):
        Replay(journal)
    journal.close()


# ----------------------------------------------------------------- what would have been


def what_if(journal: Journal, config: FederationConfig | None = None) -> Any:
    """The coordinator of a run that is decided anew."""
    replay = Replay(journal, config, whole_records=False)
    for _ in replay.run():
        pass
    replay.coordinator.flush(replay.coordinator.state.at)
    return replay.coordinator


def wondered(run: Written, **changes: Any) -> Any:
    """The coordinator of a run under other settings."""
    given = run.config.model_dump(mode="json")
    given["algorithm"] = {**given["algorithm"], **changes}
    with closing(Journal.open(run.folder, read_only=True)) as journal:
        return what_if(journal, parse_config(given))


def left_out(folder: Path, *names: str) -> Any:
    """The state of a run without some clients."""
    with closing(Journal.open(folder, read_only=True)) as journal:
        without = Restored(journal, names)
        for _, record in journal.entries():
            without.take(record)
    return without.coordinator.state


@pytest.mark.parametrize("ring_bytes", [0, None])
@pytest.mark.parametrize("downlink", ["identity", "cyclic", "low_rank", "dead_zone"])
def test_records_without_digests_and_norms_leave_every_model_as_it_was(
    tmp_path: Path, downlink: str, ring_bytes: int | None
) -> None:
    algorithm = {"downlink": {"kind": downlink}, "ring_bytes": ring_bytes}
    run = Written(tmp_path, algorithm=algorithm)
    for number in range(6):
        run.push(value=0.1 * number + 0.3)
    run.close()
    with closing(Journal.open(run.folder, read_only=True)) as journal:
        whole, less = Replay(journal), Replay(journal, whole_records=False)
        for _, record in journal.entries():
            made = whole.take(record)
            for one, other in zip(made, less.take(record), strict=True):
                if isinstance(one, r.Stepped):
                    assert one.digest
                    one = replace(one, digest="", gap_norm=0.0)
                assert to_row(one) == to_row(other)
            states = whole.coordinator.state, less.coordinator.state
            for name in ("exact_D", "buffer"):
                of_both = [getattr(state, name) for state in states]
                np.testing.assert_array_equal(*of_both)
            assert states[0].published.digest == states[1].published.digest
    assert less.coordinator.state.published.digest == run.digest


def test_what_if_the_buffer_had_been_larger(tmp_path: Path) -> None:
    run = Written(tmp_path)
    for _ in range(5):
        run.push()
    run.close()
    state = wondered(run, buffer=2).state
    assert (state.version, state.applied, state.count) == (3, 5, 0)  # the rest, too


def test_what_is_asked_does_not_end_where_the_run_did(tmp_path: Path) -> None:
    run = Written(tmp_path, stop={"versions": 2})
    for _ in range(2):
        run.push()
    run.close()
    assert run.run.coordinator.state.closed
    journal = Journal.open(run.folder, read_only=True)
    config = run.config.model_copy(update={"stop": settings(tmp_path).stop})
    changed = config.model_dump(mode="json")
    changed["stop"] = {"versions": 1}
    assert what_if(journal, parse_config(changed)).state.applied == 2
    journal.close()


def test_a_run_that_went_on_with_other_settings_is_replayed_with_them(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path, stop={"versions": 2})
    for _ in range(2):
        run.push()
    run.close()
    config = settings(
        tmp_path, algorithm={"server": {"kind": "sgd", "lr": 0.5}}, stop={"versions": 4}
    )
    again = open_run(config, 9.0, amend=True)
    again.journal.close()
    more = Written(
        tmp_path, algorithm={"server": {"kind": "sgd", "lr": 0.5}}, stop={"versions": 4}
    )
    for _ in range(2):
        more.push()
    more.close()
    kinds = {type(each).__name__ for each in entries(run.folder)}
    assert {"RunResumed", "Closed"} <= kinds
    journal = Journal.open(run.folder, read_only=True)
    found = verify(journal)
    assert (found.versions, found.recomputed, found.digest) == (4, 8, more.digest)
    assert more.run.coordinator.state.exact_D[0] == -3.0
    asked = what_if(journal, run.config)
    assert asked.state.exact_D[0] == -4.0  # the settings of a question stay
    journal.close()


class Crowded(Story):
    """A run in which clients join, leave and are late, so that the limit moves."""

    def go(self, steps: int, seed: int) -> None:
        here: list[str]
        lot, here = random.Random(seed), []
        for number in range(steps):
            state = self.run.coordinator.state
            what = lot.random()
            if what < 0.2 or not here:
                name = f"c{seed}-{number}"
                here.append(name)
                self.happens(ClientEnrolled(at=state.at, cid=name, name=name))
            elif what < 0.35:
                left = here.pop(lot.randrange(len(here)))
                self.happens(Departed(at=state.at, cid=left))
            else:
                late = lot.randrange(min(8, state.version + 1))
                base = ModelName(state.epoch, state.version - late)
                self.deliver(lot.choice(here), 0.1, base=base, oldest=None)


@pytest.mark.parametrize("amended", [None, 2])
def test_a_limit_that_moved_with_the_clients_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amended: int | None
) -> None:
    monkeypatch.setattr(limits, "LEAST_LIMIT", 0)
    monkeypatch.setattr(limits, "TIMES_LATE", 1)
    algorithm = {"kind": "fed_buff", "buffer": 2}
    run = Crowded(tmp_path, algorithm=algorithm)
    run.go(150, seed=1)
    run.close()
    algorithm = {**algorithm, "staleness_limit": amended}
    config = settings(tmp_path, algorithm=algorithm)
    open_run(config, 500.0, amend=True).journal.close()
    run = Crowded(tmp_path, algorithm=algorithm)
    run.go(150, seed=2)
    run.group.snapshot(run.run.journal.store.last)
    state = run.run.coordinator.state
    trainers, limit = state.roster.trainers, state.limit
    run.close()
    journal = Journal.open(run.folder, read_only=True)
    found = recover(journal).coordinator.state
    assert (found.roster.trainers, found.limit) == (trainers, limit)
    assert trainers == sum(row.trains for row in found.clients.values())
    decided = [each for each in entries(run.folder) if isinstance(each, r.Decided)]
    assert {each.verdict for each in decided} == {
        Verdict.ACCEPTED,
        Verdict.REJECTED_STALE,
    }
    assert len({each.reason for each in decided}) > 5  # of many limits
    assert verify(journal).recomputed >= len(decided)
    journal.close()


def test_nobody_knows_of_a_client_that_is_left_out(tmp_path: Path) -> None:
    run = told(tmp_path)
    state = left_out(run.folder, "name of ann")
    assert {row.name for row in state.clients.values()} == {
        "name of bob",
        "name of eve",
    }
    assert state.roster.trainers == 1


def rounds_of(folder: Path, rounds: Sequence[Mapping[str, float]]) -> Written:
    """A run of cohorts of three, each made of one update of these clients."""
    run = Written(folder, algorithm={"kind": "fed_buff", "buffer": 3})
    for values in rounds:
        for cid, value in values.items():
            run.push(cid, value)
        if len(values) < 3:
            run.group.step(run.run.coordinator.state.at, "deadline")
            run.group.commit()
    run.close()
    return run


@given(
    rounds=st.lists(
        st.dictionaries(
            st.sampled_from(["ann", "bob", "eve"]),
            st.integers(-8, 8).map(float),
            min_size=1,
        ),
        min_size=1,
        max_size=6,
    )
)
@hypothesis.settings(max_examples=15, deadline=None)
def test_without_a_client_rounds_stay_and_means_are_over_the_others(
    rounds: list[dict[str, float]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = rounds_of(Path(folder), rounds)
        state = left_out(run.folder, "bob")
        whole = left_out(run.folder)
    others = [
        [value for cid, value in values.items() if cid != "bob"] for values in rounds
    ]
    expected = -sum(np.mean(values) for values in others if values)
    assert state.exact_D[0] == pytest.approx(expected, abs=1e-5)
    assert state.version == sum(map(bool, others))
    assert state.applied == sum(map(len, others))
    assert whole.published.digest == run.digest


@pytest.mark.parametrize(("times", "is_same"), [(1 + 1e-9, True), (1.01, False)])
def test_the_last_bits_of_what_is_missing_are_no_decision(
    times: float, is_same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, algorithm={"downlink": {"kind": "dead_zone"}})

    def summed_otherwise(record: Any) -> Any:
        if isinstance(record, r.Stepped) and record.payload:
            return replace(record, gap_norm=3.0 * times)
        return record

    journal = rewritten(run, summed_otherwise)
    monkeypatch.setattr("fedcore.coordinator.rounds.norms_of", lambda *_: 3.0)
    with contextlib.ExitStack() as stack:
        stack.callback(journal.close)
        if not is_same:
            stack.enter_context(pytest.raises(CorruptJournalError, match="decided ag"))
        verify(journal)
