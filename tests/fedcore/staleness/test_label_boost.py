"""Label boost: Damaskinos et al., Middleware 2020, §2.3, over any dampening."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.staleness import AdaSGD, Inverse, LabelBoost, Polynomial
from fedcore.typing import Counts


def counts(*numbers: int) -> Counts:
    return np.array(numbers, np.int64)


def test_unknown_labels_are_dampened_as_the_inner_policy_says() -> None:
    policy, inner = LabelBoost().build(), Polynomial().build()
    state = policy.observe(policy.init(), 0, counts(5, 5), 1.0)
    for staleness in range(50):
        expected = inner.weigh(None, staleness, None)
        assert policy.weigh(state, staleness, None) == expected
        assert policy.weigh(state, staleness, counts(3, 3)) == pytest.approx(expected)


def test_rare_labels_raise_the_weight_up_to_the_cap_and_to_one() -> None:
    policy = LabelBoost(inner=Inverse(), cap=10).build()
    state = policy.observe(policy.init(), 0, counts(0, 100, 100), 1.0)
    assert policy.weigh(state, 99, counts(7)) == pytest.approx(10 / 100)
    assert policy.weigh(state, 99, counts(0, 9)) == pytest.approx(math.sqrt(2) / 100)
    assert policy.weigh(state, 3, counts(7)) == 1.0


def test_a_class_that_was_dampened_away_keeps_its_boost() -> None:
    boosts = {}
    for labels in ("weighted", "unweighted"):
        policy = LabelBoost.model_validate({"global_labels": labels}).build()
        state = policy.observe(policy.init(), 0, counts(0, 10), 1.0)
        for _ in range(50):
            state = policy.observe(state, 99, counts(10, 0), 0.001)
        boosts[labels] = policy.weigh(state, 99, counts(10, 0)) * 10
    assert boosts["weighted"] == pytest.approx(math.sqrt(10.5 / 0.5))
    assert boosts["unweighted"] == pytest.approx(math.sqrt(510 / 500))


def test_it_is_the_boost_of_ada_sgd() -> None:
    ada = AdaSGD(bootstrap=10**9).build()  # whose dampening stays that of DynSGD
    ours = LabelBoost(inner=Inverse()).build()
    rng, theirs_state, ours_state = np.random.default_rng(0), ada.init(), ours.init()
    for _ in range(200):
        late, seen = int(rng.integers(30)), rng.integers(0, 5, 4)
        weight = ada.weigh(theirs_state, late, seen)
        assert ours.weigh(ours_state, late, seen) == weight
        theirs_state = ada.observe(theirs_state, late, seen, weight)
        ours_state = ours.observe(ours_state, late, seen, weight)


def test_nobody_boosts_twice() -> None:
    for inner in (AdaSGD(), LabelBoost()):
        with pytest.raises(ValidationError, match="looks at the labels itself"):
            LabelBoost(inner=inner)
    assert LabelBoost(inner=AdaSGD(boost=False)).uses_labels
