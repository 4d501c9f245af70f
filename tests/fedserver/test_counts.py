"""The counts of a run: they follow from its records alone."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.coordinator import events as r
from fedcore.protocol import Verdict
from fedserver.serving import evaluation_warnings
from fedserver.view.progress import ACTS, STALENESS_BOUNDS, Progress
from tests.fedserver.test_json_log import decided
from tests.served import settings


def counts_of(*records: Any) -> Progress:
    counts = Progress()
    counts.observe([*records])
    return counts


@given(st.lists(st.integers(0, 2000)))
def test_each_update_is_in_one_bin_of_staleness(late: list[int]) -> None:
    counts = counts_of(*(decided(1.0, staleness=each) for each in late))
    bounds = [*STALENESS_BOUNDS, float("inf")]
    for place, bound in enumerate(bounds):
        not_above = sum(each <= bound for each in late)
        assert sum(counts.staleness_T[: place + 1]) == not_above
    assert counts.staleness_sum == sum(late)
    assert counts.recorded == len(late)


@pytest.mark.parametrize("verdict", [Verdict.REJECTED_MALFORMED, Verdict.DISCARDED])
def test_what_nonsense_claims_of_its_age_is_not_counted(verdict: Verdict) -> None:
    counts = counts_of(decided(1.0, staleness=-(1 << 60), verdict=verdict))
    assert sum(counts.staleness_T) == counts.staleness_sum == 0
    assert counts.verdicts == {verdict.value: 1}


def test_times_are_those_of_the_newest_version_and_update() -> None:
    step = r.Stepped(
        at=30.0, version=1, reason="buffer", count=1, samples=1.0, digest="",
        gap_norm=0.0, nbytes=1, payload=b"",
    )  # fmt: skip
    first = r.ServerStarted(at=10.0)
    assert counts_of(first).version_at == 10.0
    assert counts_of(first, decided(20.0)).version_at == 10.0
    counts = counts_of(first, decided(20.0), step)
    assert (counts.accepted_at, counts.version_at) == (20.0, 30.0)
    late = decided(40.0, verdict=Verdict.REJECTED_STALE)
    assert counts_of(decided(20.0), late).accepted_at == 20.0


def test_every_act_of_an_operator_is_counted_under_its_command() -> None:
    told: dict[type, Any] = {
        r.Freed: r.Freed(at=1.0, name="a"),
        r.Evicted: r.Evicted(at=1.0, by="", reason="", name="a"),
        r.Readmitted: r.Readmitted(at=1.0, by="", reason="", name="a"),
        r.Paused: r.Paused(at=1.0, by="", reason=""),
        r.Unpaused: r.Unpaused(at=1.0, by="", reason=""),
        r.SnapshotOrdered: r.SnapshotOrdered(at=1.0, by="", reason="", version=1),
    }
    assert told.keys() == ACTS.keys()
    counts = counts_of(*told.values())
    assert counts.acts == dict.fromkeys(ACTS.values(), 1)


def test_an_evaluator_that_fails_or_has_no_number_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(tmp_path, stop={"target": {"acc": 0.9}})
    counts = counts_of(
        r.Enrolled(at=1.0, cid="e", name="ev", role="evaluator"),
        r.Enrolled(at=1.0, cid="c", name="client", role="trainer"),
    )
    counts.listeners.append(evaluation_warnings(counts, config))
    counts.observe([r.Failed(at=2.0, cid="c", error="mine")])
    counts.observe([r.Failed(at=2.0 + n, cid="e", error=f"{n // 2}") for n in range(9)])
    for version in range(2):
        counts.observe(
            [r.Evaluated(at=9.0, cid="e", version=version, values={}, samples=1)]
        )
    assert caplog.messages == [
        "ev: 0",
        "ev: 1",
        "ev: 2",
        "stop.target: the evaluator reports no number for acc, and for nothing else",
    ]
