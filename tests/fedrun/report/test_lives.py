from pathlib import Path

from fedrun.report import lives as module
from fedrun.report.lives import Doing, Life, lives_of, most_interesting
from fedrun.report.timeline import STEPS, coarse
from fedrun.results import Results
from tests.fedrun.report.story import Story, short_story


def lives(story: Story, folder: Path) -> dict[str, Life]:
    return lives_of(Results(story.write(folder / "run")))


def stretches(life: Life) -> list[tuple[float, float, str]]:
    return [(s.start, s.end, s.doing.name) for s in life.stretches]


def test_a_client_trains_from_its_task_to_the_verdict(tmp_path: Path) -> None:
    ann = lives(short_story(), tmp_path)["id-ann"]
    assert stretches(ann) == [
        (0.0, 1.0, "IDLE"),
        (1.0, 3.0, "TRAINING"),
        (3.0, 4.0, "IDLE"),
        (4.0, 10.0, "TRAINING"),  # it still trained when the run ended
    ]


def test_a_lost_client_is_away_until_the_server_hears_of_it(tmp_path: Path) -> None:
    bob = lives(short_story(), tmp_path)["id-bob"]
    assert stretches(bob) == [
        (0.0, 1.0, "IDLE"),
        (1.0, 5.0, "TRAINING"),
        (5.0, 7.0, "AWAY"),  # its update came after all
        (7.0, 7.5, "IDLE"),
        (7.5, 9.0, "TRAINING"),
        (9.0, 10.0, "IDLE"),
    ]
    assert (bob.tasks, bob.fruitless, bob.losses) == (2, 0, 1)
    assert (bob.updates, bob.accepted, bob.weight) == (2, 1, 0.5)


def test_a_task_that_another_one_follows_came_to_nothing(tmp_path: Path) -> None:
    story = Story()
    story.admit("ann")
    story.lease("ann", 1.0)
    story.lose("ann", 2.0)
    story.lease("ann", 5.0)
    story.decide("ann", 6.0)
    story.lease("ann", 6.0)
    story.lease("ann", 8.0)
    story.close(9.0, 0)
    ann = lives(story, tmp_path)["id-ann"]
    assert stretches(ann) == [
        (0.0, 1.0, "IDLE"),
        (1.0, 2.0, "FRUITLESS"),
        (2.0, 5.0, "AWAY"),
        (5.0, 6.0, "TRAINING"),
        (6.0, 8.0, "FRUITLESS"),
        (8.0, 9.0, "TRAINING"),
    ]
    assert (ann.tasks, ann.fruitless) == (4, 2)


def test_a_task_of_no_time_leaves_earlier_ones_alone(tmp_path: Path) -> None:
    story = Story()
    story.admit("ann")
    story.lease("ann", 0.0)
    story.decide("ann", 1.0)
    story.lease("ann", 1.0)
    story.lease("ann", 1.0)
    story.close(1.0, 0)
    ann = lives(story, tmp_path)["id-ann"]
    assert stretches(ann) == [(0.0, 1.0, "TRAINING")]
    assert ann.fruitless == 1


def test_evaluators_have_no_life(tmp_path: Path) -> None:
    story = short_story()
    story.lease("judge", 9.9, task="evaluate")
    assert list(lives(story, tmp_path)) == ["id-ann", "id-bob"]


def test_a_record_may_name_a_client_that_was_never_admitted(tmp_path: Path) -> None:
    story = Story()
    story.lease("ghost", 1.0)
    story.decide("ghost", 2.0)
    assert lives(story, tmp_path)["id-ghost"].name == "id-ghost"


def test_of_many_clients_those_with_trouble_are_shown_in_their_order() -> None:
    many = [Life(f"c{i}", tasks=i, losses=int(i in (7, 99))) for i in range(100)]
    shown = most_interesting(many)
    assert len(shown) == module.MOST_SHOWN
    assert [life.name for life in shown[:2]] == ["c7", "c61"]
    assert shown[-1].name == "c99"
    assert most_interesting(many[:12]) == many[:12]


def test_long_lives_are_drawn_in_steps_and_cover_the_same_time() -> None:
    life = [
        module.Stretch(i / 10, (i + 1) / 10, Doing.TRAINING if i % 2 else Doing.IDLE)
        for i in range(10_000)
    ]
    life[5000:5100] = [module.Stretch(500.0, 510.0, Doing.AWAY)]
    (drawn,), step = coarse([life], 1000.0)
    assert step == 1000.0 / STEPS
    assert len(drawn) <= STEPS
    assert sum(s.end - s.start for s in drawn) == 1000.0
    assert [(s.start, s.end) for s in drawn if s.doing is Doing.AWAY] == [(500, 510)]


def test_short_lives_are_drawn_as_they_were() -> None:
    life = [module.Stretch(0.0, 1.0, Doing.IDLE)]
    assert coarse([life], 1.0) == ([life], 0.0)
