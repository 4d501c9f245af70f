"""Means with intervals, and tests over seeds."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstudies.statistics import (
    compare_seeds,
    estimate,
    holm,
    least_p,
    least_share,
    sign_flip_p,
    student_t,
)

# W. S. Gosset's table, as every textbook prints it: 95 %, two-sided.
TABLE = {
    1: 12.7062,
    2: 4.3027,
    3: 3.1824,
    4: 2.7764,
    5: 2.5706,
    9: 2.2622,
    10: 2.2281,
    29: 2.0452,
    30: 2.0423,
    100: 1.9840,
}
numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@pytest.mark.parametrize(("freedom", "t"), TABLE.items())
def test_the_quantile_is_that_of_the_table(freedom: int, t: float) -> None:
    assert student_t(freedom) == pytest.approx(t, abs=5e-5)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_the_quantile_is_that_of_another_library(level: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in (*range(1, 12), 57, 200):
        known = stats.t.ppf((1 + level) / 2, freedom)
        assert student_t(freedom, level) == pytest.approx(known, rel=1e-9)


def test_with_many_seeds_it_is_the_normal_distributions() -> None:
    assert student_t(20_000) == pytest.approx(1.959964, abs=2e-4)


@pytest.mark.parametrize(("freedom", "level"), [(0, 0.95), (3, 1.0), (3, 0.0)])
def test_there_is_no_quantile_of_nothing(freedom: int, level: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_t(freedom, level)


def test_an_interval_worked_by_hand() -> None:
    mean, half, size = estimate([0.8, 0.9, 1.0])
    assert mean == pytest.approx(0.9)
    assert size == 3
    assert half == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-4)


def test_what_is_no_number_is_left_out() -> None:
    assert estimate([0.5, math.nan, math.inf]) == (0.5, None, 1)
    assert math.isnan(estimate([math.nan]).mean)


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = sum(
        abs(found.mean) <= (found.half or 0)
        for found in (estimate(list(rng.standard_normal(4))) for _ in range(2000))
    )
    assert 0.935 < held / 2000 < 0.965


# ------------------------------------------------------------------- permutations


def test_p_values_worked_by_hand() -> None:
    assert sign_flip_p([1.0, 2.0, 3.0]) == 2 / 8  # only all alike are as far
    assert sign_flip_p([1.0, -1.0]) == 1.0
    assert sign_flip_p([3.0, -1.0, 3.0]) == 4 / 8  # |5|, |7| of 1, 5, 5, 7 ...
    assert least_p(3) == 0.25


@given(st.lists(numbers, min_size=1, max_size=9))
def test_the_p_value_is_the_share_of_all_signs(differences: list[float]) -> None:
    signs = itertools.product((-1, 1), repeat=len(differences))
    sums = [
        abs(math.fsum(s * abs(d) for s, d in zip(way, differences, strict=True)))
        for way in signs
    ]
    seen = abs(math.fsum(differences)) - 1e-9 * math.fsum(map(abs, differences))
    assert sign_flip_p(differences) == sum(each >= seen for each in sums) / len(sums)


@given(st.lists(numbers, min_size=2, max_size=9))
def test_neither_side_nor_order_matters(differences: list[float]) -> None:
    p = sign_flip_p(differences)
    assert sign_flip_p([-d for d in differences]) == p
    assert sign_flip_p(differences[::-1]) == p
    assert least_p(len(differences)) <= p <= 1


def test_of_many_seeds_a_sample_of_signs_is_tried() -> None:
    rng = np.random.default_rng(1)
    differences = list(rng.standard_normal(20) + 0.5)
    drawn, exact = sign_flip_p(differences), _exact(differences)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / 65_536))
    assert sign_flip_p([1.0] * 40) == 1 / 65_537


def _exact(differences: list[float]) -> float:
    sums_W = np.zeros(1)
    for size in np.abs(differences):
        sums_W = np.concatenate([sums_W + size, sums_W - size])
    return float((np.abs(sums_W) >= abs(sum(differences)) - 1e-9).mean())


def test_without_an_effect_small_p_values_are_as_rare_as_they_say() -> None:
    rng = np.random.default_rng(2)
    small = sum(sign_flip_p(list(rng.standard_normal(7))) <= 0.05 for _ in range(2000))
    assert small / 2000 < 0.06


def test_sides_are_paired_by_their_seeds() -> None:
    found = compare_seeds({0: 1.0, 1: 2.0, 7: 9.0}, {0: 0.5, 1: 1.5, 2: math.nan})
    assert found.difference == (0.5, 0.0, 2)
    assert found.p == 0.5
    assert compare_seeds({0: 1.0}, {0: 2.0}).p is None
    assert compare_seeds({0: 1.0}, {1: 2.0}).difference.size == 0


def test_p_values_are_adjusted_for_their_number() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == [
        pytest.approx(0.03),
        None,
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_the_bound_of_a_share_is_that_of_clopper_and_pearson() -> None:
    assert least_share(20, 20) == pytest.approx(0.05 ** (1 / 20))
    assert least_share(0, 5) == 0
    assert least_share(8, 10) == pytest.approx(0.4931, abs=1e-4)
