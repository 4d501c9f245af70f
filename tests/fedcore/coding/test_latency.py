"""The formulas of Lee et al., and draws beside them."""

import numpy as np
import pytest

from fedcore.coding import (
    best_split,
    coded_gradient_seconds,
    kth_fastest,
    mds_seconds,
    replicated_seconds,
    sum_ready,
    uncoded_seconds,
    usual_kind,
    worker_seconds,
)
from fedcore.errors import ConfigError
from fedcore.rng import Key

KEY = Key.root(0)
TRIALS = 40_000


def test_ten_workers_are_fastest_if_seven_are_waited_for() -> None:
    assert best_split(10, 1.0) == 7
    assert mds_seconds(10, 7, 1.0) == pytest.approx(0.299, abs=5e-4)
    assert uncoded_seconds(10, 1.0) == pytest.approx(0.393, abs=5e-4)


def test_fifty_workers_take_little_more_than_half_the_time() -> None:
    assert mds_seconds(50, best_split(50, 1.0), 1.0) == pytest.approx(0.062, abs=5e-4)
    assert uncoded_seconds(50, 1.0) == pytest.approx(0.110, abs=5e-4)


def test_the_best_share_of_workers_is_that_of_lee_et_al() -> None:
    # w = W₋₁(-e^(-μ-1)) solves w e^w = -e^(-2); k*/n = 1 + 1/w.
    w = -3.0
    for _ in range(50):
        w = -2.0 - np.log(-w)
    assert best_split(1000, 1.0) / 1000 == pytest.approx(1 + 1 / w, abs=2e-3)


@pytest.mark.parametrize(("workers", "needed"), [(10, 7), (10, 10), (50, 34)])
def test_drawn_workers_take_as_long_as_the_formula_says(
    workers: int, needed: int
) -> None:
    drawn_TW = worker_seconds(workers, 1 / needed, 1.0, TRIALS, KEY)
    assert kth_fastest(drawn_TW, needed).mean() == pytest.approx(
        mds_seconds(workers, needed, 1.0), rel=0.02
    )


@pytest.mark.parametrize(("workers", "stragglers"), [(6, 1), (6, 2), (7, 2), (5, 0)])
def test_drawn_gradient_codes_take_as_long_as_the_formula_says(
    workers: int, stragglers: int
) -> None:
    for kind in {usual_kind(workers, stragglers), "cyclic"}:
        share = (stragglers + 1) / workers
        drawn_TW = worker_seconds(workers, share, 0.5, TRIALS, KEY)
        assert sum_ready(drawn_TW, kind, stragglers).mean() == pytest.approx(
            coded_gradient_seconds(workers, stragglers, kind, 0.5), rel=0.02
        )


def test_one_copy_of_each_part_is_the_uncoded_computation() -> None:
    assert replicated_seconds(8, 1, 2.0) == uncoded_seconds(8, 2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: mds_seconds(5, 6, 1.0),
        lambda: mds_seconds(5, 0, 1.0),
        lambda: uncoded_seconds(0, 1.0),
        lambda: uncoded_seconds(5, 0.0),
        lambda: replicated_seconds(6, 4, 1.0),
        lambda: best_split(0, 1.0),
        lambda: coded_gradient_seconds(5, 1, "cyclic", -1.0),
    ],
)
def test_wrong_numbers_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="expected"):
        wrong()  # type: ignore[operator]
