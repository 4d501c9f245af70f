"""Which version is given to whom to be measured."""

from fedcore.coordinator.examinations import Examinations
from fedcore.coordinator.settings import EvaluateConfig
from fedcore.protocol import Pull

EVERY_3 = EvaluateConfig(every_versions=3)


def pull(cid: str = "eve") -> Pull:
    return Pull(cid=cid, nonce=1, epoch="e" * 16)


def given(measured: int | None, version: int) -> bool:
    """Whether an evaluator that comes gets this version."""
    examinations = Examinations()
    examinations.arrive(pull(), measured)
    return bool(examinations.grant(version, EVERY_3))


def test_an_evaluator_gets_what_is_due_since_the_last_measurement() -> None:
    assert given(None, 0)
    assert given(None, 1)
    assert [given(0, version) for version in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert [given(2, version) for version in (4, 5)] == [False, True]


def test_a_version_is_given_once_to_all_who_wait_for_it() -> None:
    examinations = Examinations()
    examinations.arrive(pull("eve"), None)
    examinations.arrive(pull("eva"), None)
    assert [each.cid for each in examinations.grant(0, EVERY_3)] == ["eve", "eva"]
    assert examinations.grant(0, EVERY_3) == []
    assert examinations.grant(3, EVERY_3) == []  # nobody waits
    examinations.arrive(pull("eve"), 0)
    assert [each.cid for each in examinations.grant(3, EVERY_3)] == ["eve"]


def test_a_version_that_nobody_waited_for_is_due_when_somebody_comes() -> None:
    examinations = Examinations()
    assert examinations.grant(4, EVERY_3) == []
    examinations.arrive(pull(), None)
    assert examinations.grant(4, EVERY_3) == [pull()]


def test_what_was_given_and_not_measured_is_given_again() -> None:
    examinations = Examinations()
    for _ in range(2):
        examinations.arrive(pull(), None)
        assert examinations.grant(1, EVERY_3) == [pull()]


def test_whoever_withdraws_is_given_nothing() -> None:
    examinations = Examinations()
    examinations.arrive(pull(), None)
    assert examinations.withdraw("eve") == pull()
    assert examinations.withdraw("eve") is None
    assert examinations.grant(1, EVERY_3) == []


def test_a_trainer_measures_at_first_and_then_every_so_many_versions() -> None:
    examinations = Examinations()
    config = EvaluateConfig(every_versions=3, clients=True)
    asked = [v for v in range(9) if examinations.asks("ann", v, config)]
    assert asked == [0, 3, 6]
    assert examinations.asks("bob", 8, config)
    assert not examinations.asks("bob", 10, config)
    assert examinations.asks("bob", 11, config)


def test_trainers_measure_nothing_unless_they_shall() -> None:
    assert not any(Examinations().asks("ann", v, EVERY_3) for v in range(9))
