"""Label boost: Damaskinos et al., Middleware 2020, §2.3, over any dampening."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.staleness import AdaSGD, Inverse, LabelBoost, Polynomial, StalenessPolicy
from fedcore.staleness.label_boost import BoostState
from fedcore.typing import Counts


def counts(*numbers: int) -> Counts:
    return np.array(numbers, np.int64)


def usual(policy: StalenessPolicy, labels: Counts, times: int = 300) -> BoostState:
    """The state after so many updates of these labels that were not late."""
    state: BoostState = policy.init()
    for _ in range(times):
        state = policy.observe(state, 0, labels, 1.0)
    return state


def test_usual_and_unknown_labels_are_dampened_as_the_inner_policy_says() -> None:
    policy, inner = LabelBoost().build(), Polynomial().build()
    state = usual(policy, counts(5, 5))
    for staleness in range(50):
        expected = inner.weigh(None, staleness, None)
        assert policy.weigh(state, staleness, None) == expected
        assert policy.weigh(state, staleness, counts(3, 3)) == pytest.approx(expected)


def test_rare_labels_raise_the_weight_up_to_the_cap_and_to_one() -> None:
    policy = LabelBoost(inner=Inverse(), cap=10).build()
    state = usual(policy, counts(0, 100, 100))
    assert policy.weigh(state, 99, counts(7)) == pytest.approx(10 / 100)
    assert policy.weigh(state, 99, counts(0, 9)) == pytest.approx(math.sqrt(2) / 100)
    assert policy.weigh(state, 3, counts(7)) == 1.0


def test_where_everybody_holds_another_class_nobody_is_lifted() -> None:
    policy = LabelBoost(inner=Inverse()).build()
    state = policy.init()
    for update in range(1000):
        state = policy.observe(state, 9, np.eye(10, dtype=np.int64)[update % 10], 0.1)
    assert state.usual == pytest.approx(math.sqrt(1 / 10), rel=0.02)
    for label in range(10):
        weight = policy.weigh(state, 9, np.eye(10, dtype=np.int64)[label])
        assert weight == pytest.approx(1 / 10, rel=0.02)
    # As published they would be lifted all together.
    ada = AdaSGD(bootstrap=10**9).build()  # whose dampening stays 1/(τ + 1)
    theirs = ada.init()._replace(labels_C=state.labels_C)
    lifted = ada.weigh(theirs, 9, np.eye(10, dtype=np.int64)[3])
    assert lifted == pytest.approx(math.sqrt(10) / 10, rel=0.02)


def test_a_class_that_was_dampened_away_keeps_its_boost() -> None:
    boosts = {}
    for labels in ("weighted", "unweighted"):
        policy = LabelBoost.model_validate({"global_labels": labels}).build()
        state = usual(policy, counts(0, 10))
        for _ in range(50):
            state = policy.observe(state, 99, counts(10, 0), 0.001)
        state = state._replace(usual=1.0)
        boosts[labels] = policy.weigh(state, 99, counts(10, 0)) * 10
    assert boosts["weighted"] == pytest.approx(10)  # √(3000.5/.5) is above the cap
    assert boosts["unweighted"] == pytest.approx(math.sqrt(3500 / 500))


def test_the_usual_similarity_follows_what_comes() -> None:
    policy = LabelBoost().build()
    state = usual(policy, counts(10, 10))
    assert state.usual == pytest.approx(1)
    for _ in range(100):
        state = policy.observe(state, 0, counts(1, 0), 1e-6)
    left = 0.99**100
    assert state.usual == pytest.approx(left + (1 - left) * math.sqrt(1 / 2), rel=1e-3)


def test_nobody_boosts_twice() -> None:
    for inner in (AdaSGD(), LabelBoost()):
        with pytest.raises(ValidationError, match="looks at the labels itself"):
            LabelBoost(inner=inner)
    assert LabelBoost(inner=AdaSGD(boost=False)).uses_labels
