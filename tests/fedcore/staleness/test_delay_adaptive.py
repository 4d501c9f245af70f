"""Delay-adaptive dampening: after Koloskova et al. and Mishchenko et al., 2022."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.staleness import DelayAdaptive, Inverse, Polynomial

late = st.integers(0, 10**6)


@given(late, st.floats(1, 100), st.floats(0, 2))
def test_the_model_moves_by_at_most_the_limit_while_an_update_is_computed(
    staleness: int, limit: float, exponent: float
) -> None:
    policy = DelayAdaptive(limit=limit, exponent=exponent).build()
    assert staleness * policy.weigh(None, staleness, None) <= limit


def test_a_square_root_has_no_such_limit() -> None:
    root = Polynomial(exponent=0.5).build()
    assert 250 * root.weigh(None, 250, None) > 15


def test_an_update_that_is_not_very_late_counts_as_the_power_says() -> None:
    policy, root = DelayAdaptive(limit=5).build(), Polynomial(exponent=0.5).build()
    for staleness in range(25):  # up to limit² - 1
        assert policy.weigh(None, staleness, None) == pytest.approx(
            root.weigh(None, staleness, None)
        )


@pytest.mark.parametrize(
    ("staleness", "weight"),
    [(0, 1), (3, 1 / 2), (24, 1 / 5), (49, 1 / 10), (999, 1 / 200)],
)
def test_weights_by_hand(staleness: int, weight: float) -> None:
    policy = DelayAdaptive(limit=5).build()
    assert policy.weigh(None, staleness, None) == pytest.approx(weight)


@given(late)
def test_with_a_limit_of_one_it_is_dyn_sgd(staleness: int) -> None:
    ours, theirs = DelayAdaptive(limit=1).build(), Inverse().build()
    assert ours.weigh(None, staleness, None) == pytest.approx(
        theirs.weigh(None, staleness, None)
    )
