"""FedYogi by hand: Reddi et al., ICLR 2021, Algorithm 2.

v ← v - 0.01·Δ²·sign(v - Δ²).
"""

import numpy as np
import pytest

from fedcore.server_optimizers import Yogi
from tests.fedcore.server_optimizers.by_hand import Steps, check_steps


def test_two_steps_by_hand() -> None:
    steps = Steps(
        m=[0.1 * -0.5, 0.9 * -0.05 + 0.1 * 0.25],
        v=[1e-6 + 0.0025, 1e-6 + 0.0025 + 0.000625],
        x=[0.9019800, 0.8668372],
    )
    check_steps(Yogi(), steps)


def test_the_defaults_are_those_of_the_specification() -> None:
    config = Yogi()
    assert (config.lr, config.beta_1, config.tau) == (0.1, 0.9, 1e-3)
    assert config.build().init(2).v_D.tolist() == [pytest.approx(1e-6)] * 2


def test_the_second_moment_falls_by_the_square_and_not_to_it() -> None:
    optimizer = Yogi().build()
    state = optimizer.init(1)._replace(v_D=np.ones(1, np.float32))
    _, state = optimizer.update(
        np.zeros(1, np.float32), np.array([0.1], np.float32), state
    )
    assert state.v_D[0] == pytest.approx(1 - 0.01 * 0.01, rel=1e-7)


def test_the_second_moment_never_falls_below_zero() -> None:
    optimizer = Yogi(beta_2=0.0).build()
    exact_D, state = np.zeros(1, np.float32), optimizer.init(1)
    for agg in (1.0, 1.0, 0.999, 0.5, 0.7):
        exact_D, state = optimizer.update(exact_D, np.array([agg], np.float32), state)
        assert state.v_D[0] >= 0
        assert np.isfinite(exact_D[0])
