from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import Failed
from fedview.report import client_timelines as module
from fedview.report.client_timelines import (
    ClientTimeline,
    Doing,
    most_interesting,
    states,
    timelines_of,
)
from fedview.report.history import downtimes, time_down
from fedview.report.timeline import STEPS, coarse
from fedview.results import Results
from tests.fedview.report.story import SOON_LOST, Story, short_story


def timelines(story: Story, folder: Path) -> dict[str, ClientTimeline]:
    return timelines_of(Results(story.write(folder / "run")))


def stretches(timeline: ClientTimeline) -> list[tuple[float, float, str]]:
    return [(s.start, s.end, s.doing.name) for s in timeline.stretches]


def test_a_client_trains_from_its_task_to_the_verdict(tmp_path: Path) -> None:
    ann = timelines(short_story(), tmp_path)["id-ann"]
    assert stretches(ann) == [
        (0.0, 1.0, "IDLE"),
        (1.0, 3.0, "TRAINING"),
        (3.0, 4.0, "IDLE"),
        (4.0, 10.0, "TRAINING"),  # it still trained when the run ended
    ]


def test_a_lost_client_is_away_until_the_server_hears_of_it(tmp_path: Path) -> None:
    bob = timelines(short_story(), tmp_path)["id-bob"]
    assert stretches(bob) == [
        (0.0, 1.0, "IDLE"),
        (1.0, 4.5, "TRAINING"),  # it was lost at 5.0, having been silent for 0.5
        (4.5, 7.0, "AWAY"),  # its update came after all
        (7.0, 7.5, "IDLE"),
        (7.5, 9.0, "TRAINING"),
        (9.0, 10.0, "IDLE"),
    ]
    assert (bob.tasks, bob.fruitless, bob.losses) == (2, 0, 1)
    assert (bob.updates, bob.accepted, bob.weight) == (2, 1, 0.5)


def test_a_task_that_another_one_follows_came_to_nothing(tmp_path: Path) -> None:
    story = Story(config=SOON_LOST)
    story.enrol("ann")
    story.lease("ann", 1.0)
    story.lose("ann", 2.0)
    story.lease("ann", 5.0)
    story.decide("ann", 6.0)
    story.lease("ann", 6.0)
    story.lease("ann", 8.0)
    story.close(9.0, 0)
    ann = timelines(story, tmp_path)["id-ann"]
    assert stretches(ann) == [
        (0.0, 1.0, "IDLE"),
        (1.0, 1.5, "FRUITLESS"),
        (1.5, 5.0, "AWAY"),
        (5.0, 6.0, "TRAINING"),
        (6.0, 8.0, "FRUITLESS"),
        (8.0, 9.0, "TRAINING"),
    ]
    assert (ann.tasks, ann.fruitless) == (4, 2)


@pytest.mark.parametrize("go", [Story.evict, Story.leave])
def test_who_is_gone_for_good_does_not_train_on(tmp_path: Path, go: Any) -> None:
    story = Story(config=SOON_LOST)
    story.enrol("ann")
    story.lease("ann", 1.0)
    go(story, "ann", 3.0)
    story.lose("ann", 4.0)  # nobody is where it was
    story.close(9.0, 0)
    ann = timelines(story, tmp_path)["id-ann"]
    assert stretches(ann) == [(0.0, 1.0, "IDLE"), (1.0, 3.0, "FRUITLESS")]
    assert (ann.tasks, ann.fruitless, ann.losses) == (1, 1, 0)


def test_a_client_that_is_let_back_is_there_when_it_is_heard_of(tmp_path: Path) -> None:
    story = Story(config=SOON_LOST)
    story.enrol("ann")
    story.evict("ann", 2.0)
    story.readmit("ann", 4.0)
    story.enrol("ann", 6.0)
    story.close(9.0, 0)
    ann = timelines(story, tmp_path)["id-ann"]
    assert stretches(ann) == [(0.0, 2.0, "IDLE"), (6.0, 9.0, "IDLE")]


def test_a_lost_client_that_never_returns_does_not_stay_in_training(
    tmp_path: Path,
) -> None:
    story = Story(config=SOON_LOST)
    story.enrol("ann")
    story.lease("ann", 1.0)
    story.lose("ann", 4.5)
    story.close(9.0, 0)
    ann = timelines(story, tmp_path)["id-ann"]
    assert stretches(ann)[1:] == [(1.0, 4.0, "FRUITLESS"), (4.0, 9.0, "AWAY")]


def test_a_client_whose_code_raises_trains_no_more(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    story.lease("ann", 1.0)
    story.records.append(Failed(at=3.0, cid="id-ann", error="ValueError: no"))
    story.close(9.0, 0)
    ann = timelines(story, tmp_path)["id-ann"]
    assert stretches(ann)[1:] == [(1.0, 3.0, "FRUITLESS"), (3.0, 9.0, "IDLE")]
    assert ann.fruitless == 1


def restarted() -> Story:
    """A server is killed at 4 and back at 6; three clients were at work by then."""
    story = Story()
    story.start(0.0)
    for name in ("delivers", "asks", "never", "idle"):
        story.enrol(name)
    for name in ("delivers", "asks", "never"):
        story.lease(name, 1.0)
    story.measure("delivers", 4.0, 0)  # the last that is known of the first server
    story.start(6.0)
    story.decide("delivers", 7.0)
    story.lease("asks", 8.0)
    story.decide("asks", 9.0)
    story.close(10.0, 0)
    story.stop(12.0)
    story.start(50.0)  # to find that it has ended
    story.stop(51.0)
    return story


def test_who_delivers_after_a_restart_has_trained_on(tmp_path: Path) -> None:
    found = timelines(restarted(), tmp_path)
    assert stretches(found["id-delivers"])[1] == (1.0, 7.0, "TRAINING")


def test_who_asks_anew_after_a_restart_was_away(tmp_path: Path) -> None:
    found = timelines(restarted(), tmp_path)
    assert stretches(found["id-asks"])[1:] == [
        (1.0, 4.0, "FRUITLESS"),
        (4.0, 8.0, "AWAY"),
        (8.0, 9.0, "TRAINING"),
        (9.0, 10.0, "IDLE"),
    ]


def test_who_never_comes_back_after_a_restart_stays_away(tmp_path: Path) -> None:
    found = timelines(restarted(), tmp_path)
    away = (4.0, 10.0, "AWAY")
    assert stretches(found["id-never"])[1:] == [(1.0, 4.0, "FRUITLESS"), away]
    assert stretches(found["id-idle"]) == [(0.0, 4.0, "IDLE"), away]


def test_the_servers_downtime_is_from_its_last_record_to_the_next_start(
    tmp_path: Path,
) -> None:
    results = Results(restarted().write(tmp_path / "run"))
    assert downtimes(results) == [(4.0, 6.0, "killed"), (12.0, 50.0, "ended")]
    assert results.seconds == 10.0  # servers that find an ended run prolong nothing


def test_a_server_that_was_told_to_stop_was_not_killed(tmp_path: Path) -> None:
    story = short_story()
    story.records.pop()
    story.start(10.0)
    story.stop(11.0)
    story.start(15.0)
    story.fork_history(16.0, 2, "restored from a backup")
    story.start(20.0)
    results = Results(story.write(tmp_path / "run"))
    gaps = downtimes(results)
    assert gaps == [(11.0, 15.0, "stopped"), (15.0, 20.0, "set back")]
    assert time_down(gaps) == 4.0


def test_the_states_of_all_clients_add_up_at_every_moment(tmp_path: Path) -> None:
    story = restarted()
    story.enrol("late", at=9.5)
    results = Results(story.write(tmp_path / "run"))
    found = states(timelines_of(results).values(), results.seconds, 101)
    assert set(np.sum(list(found.counts.values()), axis=0)) == {5.0}
    assert all(each.min() >= 0 for each in found.counts.values())
    at = {
        moment: {d.name: n[moment] for d, n in found.counts.items()}
        for moment in (50, 75)
    }
    assert at[50] == {  # 5.0 s: nobody serves
        "TRAINING": 1,
        "FRUITLESS": 0,
        "AWAY": 3,
        "IDLE": 0,
        "ABSENT": 1,
    }
    assert at[75]["IDLE"] == 1
    assert found.counts[Doing.ABSENT][-1] == 0


def test_a_task_of_no_time_leaves_earlier_ones_alone(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    story.lease("ann", 0.0)
    story.decide("ann", 1.0)
    story.lease("ann", 1.0)
    story.lease("ann", 1.0)
    story.close(1.0, 0)
    ann = timelines(story, tmp_path)["id-ann"]
    assert stretches(ann) == [(0.0, 1.0, "TRAINING")]
    assert ann.fruitless == 1


def test_evaluators_have_no_life(tmp_path: Path) -> None:
    story = short_story()
    story.lease("judge", 9.9, task="evaluate")
    assert list(timelines(story, tmp_path)) == ["id-ann", "id-bob"]


def test_a_record_may_name_a_client_that_was_never_admitted(tmp_path: Path) -> None:
    story = Story()
    story.lease("ghost", 1.0)
    story.decide("ghost", 2.0)
    assert timelines(story, tmp_path)["id-ghost"].name == "id-ghost"


def test_of_many_clients_those_with_trouble_are_shown_in_their_order() -> None:
    many = [
        ClientTimeline(f"c{i}", tasks=i, losses=int(i in (7, 99))) for i in range(100)
    ]
    shown = most_interesting(many)
    assert len(shown) == module.MOST_SHOWN
    assert [timeline.name for timeline in shown[:2]] == ["c7", "c61"]
    assert shown[-1].name == "c99"
    assert most_interesting(many[:12]) == many[:12]


def test_long_lives_are_drawn_in_steps_and_cover_the_same_time() -> None:
    timeline = [
        module.Stretch(i / 10, (i + 1) / 10, Doing.TRAINING if i % 2 else Doing.IDLE)
        for i in range(10_000)
    ]
    timeline[5000:5100] = [module.Stretch(500.0, 510.0, Doing.AWAY)]
    (drawn,), step = coarse([timeline], 1000.0)
    assert step == 1000.0 / STEPS
    assert len(drawn) <= STEPS
    assert sum(s.end - s.start for s in drawn) == 1000.0
    assert [(s.start, s.end) for s in drawn if s.doing is Doing.AWAY] == [(500, 510)]


def test_short_lives_are_drawn_as_they_were() -> None:
    timeline = [module.Stretch(0.0, 1.0, Doing.IDLE)]
    assert coarse([timeline], 1.0) == ([timeline], 0.0)
