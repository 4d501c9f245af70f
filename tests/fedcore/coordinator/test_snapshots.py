"""What a snapshot holds: all that later decisions and versions depend on."""

from typing import Any

import numpy as np
import pytest

from fedcore.aggregators import FlexibleParticipation
from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import ErrorFeedback, Identity, TopK
from fedcore.coordinator.events import Departed, StopRequested
from fedcore.coordinator.published import LEAST_VERSIONS, MOST_VERSIONS
from fedcore.protocol import HISTORY, Verdict
from fedcore.recipes import FedAsync, FedBuff
from fedcore.server_optimizers import Adagrad, Adam, Momentum, Yogi
from fedcore.staleness import AdaSGD, Inverse, LabelBoost
from fedcore.update_filters import FleetController
from tests.fedcore.coordinator.desk import Desk
from tests.protocol.photo import photo

CONFIGS: dict[str, AlgorithmConfig] = {
    "momentum": FedBuff(buffer=2, server=Momentum()),
    "adam": FedBuff(buffer=2, server=Adam()),
    "yogi": FedBuff(buffer=2, server=Yogi()),
    "adagrad": FedBuff(buffer=2, server=Adagrad()),
    "samples": FedBuff(buffer=3, weigh_by="samples"),
    "ada_sgd": FedBuff(buffer=2, staleness=AdaSGD(bootstrap=2, window=4)),
    "label_boost": FedBuff(buffer=2, staleness=LabelBoost()),
    "update_filter": FedBuff(buffer=2, update_filter=FleetController()),
    "mixing": FedAsync(),
    "arrivals": FedBuff(buffer=2, aggregator=FlexibleParticipation(boost=2)),
    "compressed": FedBuff(
        buffer=2,
        downlink=TopK(ratio=0.25),
        uplink=ErrorFeedback(inner=Identity()),
        staleness=Inverse(),
    ),
}


def goes_on(desk: Desk, first: int, last: int) -> list[Any]:
    """Updates that differ in all that may matter; what became of them."""
    answers = []
    for number in range(first, last):
        name = "ab"[number % 2]
        values = [float((7 * number + place) % 5 - 2) for place in range(4)]
        desk.at += 1.0
        desk.push(
            name,
            number // 2 + 1,
            values,
            base=max(0, desk.version - number % 3),
            samples=1 + number % 4,
            counts=np.array([number % 4, 1, 0]),
        )
        answers.append((desk.ack.answer, desk.ack.weight, desk.ack.version))
    return answers


def restarted(desk: Desk, config: AlgorithmConfig) -> Desk:
    """Another process that has read the snapshot."""
    scalars, arrays = desk.coordinator.state.dump()
    again = Desk(config)
    again.coordinator.state.load(scalars, arrays)
    again.at, again.settled = desk.at, dict(desk.settled)
    return again


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("before", [0, 1, 5, 8])
def test_a_restart_from_a_snapshot_changes_nothing_now_nor_later(
    name: str, before: int
) -> None:
    desk = Desk(CONFIGS[name])
    desk.enrol("a", "b")
    goes_on(desk, 0, before)
    again = restarted(desk, CONFIGS[name])
    assert photo(again.coordinator.state) == photo(desk.coordinator.state)
    assert goes_on(again, before, 20) == goes_on(desk, before, 20)
    assert photo(again.coordinator.state) == photo(desk.coordinator.state)


def test_a_state_that_was_loaded_is_not_moved_by_what_comes_after_it() -> None:
    desk = Desk(CONFIGS["adam"])
    desk.enrol("a", "b")
    goes_on(desk, 0, 5)
    again = restarted(desk, CONFIGS["adam"])
    before = photo(again.coordinator.state)
    goes_on(desk, 5, 12)
    assert photo(again.coordinator.state) == before


def test_a_snapshot_holds_how_the_run_stands() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("a", "b")
    desk.enrol("judge", role="evaluator")
    desk.at, desk.coordinator.state.started = 7.0, 6.0
    goes_on(desk, 0, 3)
    desk.evaluate("judge", 1, accuracy=0.5)
    desk.feed(Departed(at=desk.at, cid="b"))
    desk.push("a", 9, base=-1)
    desk.feed(StopRequested(at=9.0, reason="over"))
    again = restarted(desk, FedBuff(buffer=2))
    state, old = again.coordinator.state, desk.coordinator.state
    assert (state.at, state.started) == (old.at, old.started) == (10.0, 6.0)
    assert (state.evaluated, state.closed, state.applied) == (1, "over", 3)
    assert (state.count, state.samples) == (0, 0.0)
    assert state.clients["b"].left
    row = state.clients["a"]
    assert row.receipt == old.clients["a"].receipt
    assert row.reason == "an update based on version -1"
    assert row.role == "trainer"
    assert state.clients["judge"].role == "evaluator"


def test_a_duplicate_gets_the_same_answer_after_a_restart() -> None:
    desk = Desk(FedBuff(buffer=2, staleness=Inverse()))
    desk.enrol("a", "b")
    goes_on(desk, 0, 6)
    desk.push("b", 7, base=1)
    told = desk.ack
    assert (told.answer, told.weight) == (Verdict.ACCEPTED, 1 / 3)
    again = restarted(desk, FedBuff(buffer=2, staleness=Inverse()))
    again.push("b", 7, base=1)
    assert again.ack == told


def test_as_many_accepted_numbers_are_kept_as_both_sides_remember() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol("a")
    for seq in range(1, HISTORY + 6):
        desk.push("a", seq)
    for each in (desk, restarted(desk, FedBuff(buffer=1))):
        each.pull("a", epoch="0" * 16)
        assert each.reply.accepted == tuple(range(6, HISTORY + 6))
        each.push("a", HISTORY + 6)
        each.pull("a", epoch="0" * 16)
        assert each.reply.accepted == tuple(range(7, HISTORY + 7))


def test_rejected_numbers_are_not_among_those_that_count() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol("a")
    desk.push("a", 1)
    desk.push("a", 2, samples=0)
    desk.push("a", 3, [np.nan, 0.0, 0.0, 0.0])
    desk.push("a", 4)
    for each in (desk, restarted(desk, FedBuff(buffer=1))):
        each.pull("a", epoch="0" * 16)
        assert each.reply.accepted == (1, 4)
        assert each.reply.receipt.seq == 4


def test_the_ring_is_as_long_after_a_restart() -> None:
    config = FedBuff(buffer=1, downlink=TopK(ratio=0.25), ring_bytes=100)
    desk = Desk(config)
    desk.enrol("a")
    for seq in range(1, LEAST_VERSIONS + 20):
        desk.push("a", seq, [float(seq % 3), 1.0, 0.0, 0.0])
    again = restarted(desk, config)
    for seq in range(LEAST_VERSIONS + 20, LEAST_VERSIONS + 40):
        for each in (desk, again):
            each.push("a", seq, [float(seq % 3), 1.0, 0.0, 0.0])
        ring, old = (each.coordinator.state.published.ring for each in (again, desk))
        assert photo(ring) == photo(old)
        kept = [entry for entry in ring if entry.message is not None]
        assert 50 < sum(entry.message_bytes for entry in kept) <= 100
    assert LEAST_VERSIONS <= len(ring) <= MOST_VERSIONS


def test_every_version_that_may_still_be_mixed_with_is_kept_and_no_other() -> None:
    config = FedAsync(staleness_limit=3)
    desk = Desk(config)
    desk.enrol("a")
    for seq in range(1, 9):
        desk.push("a", seq)
    for each in (desk, restarted(desk, config)):
        assert list(each.coordinator.state.bases) == [5, 6, 7, 8]
        verdicts = []
        for seq in (9, 10):
            each.push("a", seq, base=5)
            verdicts.append(each.ack.answer)
        assert verdicts == [Verdict.ACCEPTED, Verdict.REJECTED_STALE]
