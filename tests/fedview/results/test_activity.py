"""What a client does follows from the records, in every view alike."""

from typing import Any, get_args

import pytest

from fedcore.coordinator import events as r
from fedrun.journal.store import Row
from fedview.results.coverage import Activities, Activity
from tests.fedserver.test_json_log import decided

ENROLLED = r.Enrolled(at=0.0, cid="a", name="ann", role="trainer")
TRAINS = r.Leased(at=1.0, cid="a", version=7, task="train", patch="", nbytes=0)
EVALUATES = r.Leased(at=1.0, cid="a", version=7, task="evaluate", patch="", nbytes=0)
EVICTED, READMITTED = r.Evicted(at=2.0, name="ann"), r.Readmitted(at=3.0, name="ann")
FREED = r.Freed(at=2.5, name="ann")
OWN: list[tuple[Any, Activity]] = [
    (TRAINS, Activity.TRAINS),
    (EVALUATES, Activity.EVALUATES),
    (
        r.Declined(at=2.0, cid="a", version=7, planned=1, counts=None, reason=""),
        Activity.RESTS,
    ),
    (decided(2.0), Activity.IDLE),
    (r.Lost(at=2.0, cid="a"), Activity.LOST),
    (r.Failed(at=2.0, cid="a", error=""), Activity.FAILED),
    (r.Departed(at=2.0, cid="a"), Activity.LEFT),
    (r.Evaluated(at=2.0, cid="a", version=7, values={}, samples=1), Activity.TRAINS),
    (r.Skipped(at=2.0, cid="a", count=1, why=""), Activity.TRAINS),
    (r.Unproved(at=2.0, cid="a", count=1), Activity.TRAINS),
    (ENROLLED, Activity.TRAINS),  # it goes on with the task that it has
]


def after(*records: Any) -> Activity:
    activities = Activities()
    for record in records:
        activities.observe(record)
    return activities.now["a"]


def test_every_record_of_a_client_is_known() -> None:
    classes = get_args(Row)
    own = {cls for cls in classes if "cid" in cls.__dataclass_fields__}
    assert own == {type(record) for record, _ in OWN}
    named = {cls for cls in classes if "name" in cls.__dataclass_fields__}
    assert named == {r.Enrolled, r.Evicted, r.Readmitted, r.Freed}


@pytest.mark.parametrize(("record", "activity"), OWN)
def test_a_record_says_what_its_client_does(record: Any, activity: Activity) -> None:
    assert after(ENROLLED, TRAINS, record) is activity


@pytest.mark.parametrize("record", [record for record, _ in OWN])
def test_whatever_follows_an_evicted_client_stays_out(record: Any) -> None:
    assert after(ENROLLED, TRAINS, EVICTED, record) is Activity.EVICTED
    assert after(ENROLLED, TRAINS, EVICTED, record, READMITTED) is Activity.AWAY


def test_a_client_that_joins_again_is_there_again() -> None:
    lost = r.Lost(at=2.0, cid="a")
    assert after(ENROLLED, TRAINS, lost, ENROLLED) is Activity.IDLE
    assert after(ENROLLED, EVICTED, READMITTED, ENROLLED) is Activity.IDLE


def test_who_was_evicted_before_its_name_was_freed_stays_out() -> None:
    other = r.Enrolled(at=2.6, cid="b", name="ann", role="trainer")
    activities = Activities()
    for record in (ENROLLED, EVICTED, FREED, other, EVICTED, READMITTED):
        activities.observe(record)
    assert activities.now == {"a": Activity.EVICTED, "b": Activity.AWAY}


def test_an_evaluator_is_idle_once_it_has_measured() -> None:
    measured = r.Evaluated(at=2.0, cid="a", version=7, values={}, samples=1)
    assert after(ENROLLED, EVALUATES, measured) is Activity.IDLE
