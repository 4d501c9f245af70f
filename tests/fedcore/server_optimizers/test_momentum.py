"""FedAvgM by hand: Hsu et al., 2019."""

import numpy as np
import pytest

from fedcore.server_optimizers import SGD, Momentum


def test_two_steps_by_hand() -> None:
    optimizer = Momentum(lr=1.0, beta=0.5).build()
    exact_D, v_D = np.array([10], np.float32), optimizer.init(1)
    exact_D, v_D = optimizer.update(exact_D, np.array([2], np.float32), v_D)
    assert (exact_D.tolist(), v_D.tolist()) == ([8], [2])
    exact_D, v_D = optimizer.update(exact_D, np.array([1], np.float32), v_D)
    assert (exact_D.tolist(), v_D.tolist()) == ([6], [2])  # v = ½·2 + 1
    exact_D, v_D = optimizer.update(exact_D, np.array([0], np.float32), v_D)
    assert (exact_D.tolist(), v_D.tolist()) == ([5], [1])  # it rolls on


def test_without_momentum_it_is_sgd() -> None:
    exact_D, agg_D = np.array([1.1], np.float32), np.array([0.3], np.float32)
    rolling = Momentum(lr=0.7, beta=0).build()
    moved_D, _ = rolling.update(exact_D, agg_D, rolling.init(1))
    plain_D, _ = SGD(lr=0.7).build().update(exact_D, agg_D, None)
    assert moved_D.tobytes() == plain_D.tobytes()


def test_a_steady_aggregate_moves_one_over_one_minus_beta_as_far() -> None:
    optimizer = Momentum(beta=0.9).build()
    exact_D, v_D = np.zeros(1, np.float32), optimizer.init(1)
    for _ in range(200):
        before_D = exact_D
        exact_D, v_D = optimizer.update(exact_D, np.ones(1, np.float32), v_D)
    assert before_D - exact_D == pytest.approx(10, rel=1e-4)
