"""Which version is given to whom to be evaluated."""

from fedcore.coordinator.answers import Evaluations
from fedcore.coordinator.settings import EvaluateConfig

EVERY_3 = EvaluateConfig(every_versions=3)


def given(evaluated: int | None, version: int) -> bool:
    """Whether an evaluator that comes gets this version."""
    evaluations = Evaluations(EVERY_3)
    evaluations.arrive("eve", evaluated)
    return bool(evaluations.grant(version))


def test_an_evaluator_gets_what_is_due_since_the_last_evaluation() -> None:
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
    evaluations = Evaluations(EVERY_3)
    evaluations.arrive("eve", None)
    evaluations.arrive("eva", None)
    assert evaluations.grant(0) == ["eve", "eva"]
    assert evaluations.grant(0) == []
    assert evaluations.grant(3) == []  # nobody waits
    evaluations.arrive("eve", 0)
    assert evaluations.grant(3) == ["eve"]


def test_a_version_that_nobody_waited_for_is_due_when_somebody_comes() -> None:
    evaluations = Evaluations(EVERY_3)
    assert evaluations.grant(4) == []
    evaluations.arrive("eve", None)
    assert evaluations.grant(4) == ["eve"]


def test_what_was_given_and_not_evaluated_is_given_again() -> None:
    evaluations = Evaluations(EVERY_3)
    for _ in range(2):
        evaluations.arrive("eve", None)
        assert evaluations.grant(1) == ["eve"]


def test_whoever_withdraws_is_given_nothing() -> None:
    evaluations = Evaluations(EVERY_3)
    evaluations.arrive("eve", None)
    evaluations.withdraw("eve")
    evaluations.withdraw("eve")
    assert evaluations.grant(1) == []


def test_a_trainer_evaluates_at_first_and_then_every_so_many_versions() -> None:
    evaluations = Evaluations(EvaluateConfig(every_versions=3, clients=True))
    asked = [v for v in range(9) if evaluations.asks("ann", v)]
    assert asked == [0, 3, 6]
    assert evaluations.asks("bob", 8)
    assert not evaluations.asks("bob", 10)
    assert evaluations.asks("bob", 11)


def test_trainers_evaluate_nothing_unless_they_shall() -> None:
    assert not any(Evaluations(EVERY_3).asks("ann", v) for v in range(9))
