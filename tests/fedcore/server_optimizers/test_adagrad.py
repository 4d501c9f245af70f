"""FedAdagrad by hand: Reddi et al., ICLR 2021, Algorithm 2, v ← v + Δ²."""

import numpy as np
import pytest

from fedcore.server_optimizers import Adagrad
from tests.fedcore.server_optimizers.by_hand import Steps, check_steps


def test_two_steps_by_hand() -> None:
    steps = Steps(
        m=[0.1 * -0.5, 0.9 * -0.05 + 0.1 * 0.25],
        v=[1e-6 + 0.25, 1e-6 + 0.25 + 0.0625],
        x=[0.9900200, 0.9864487],
    )
    check_steps(Adagrad(), steps)


def test_the_defaults_are_those_of_the_specification() -> None:
    config = Adagrad()
    assert (config.lr, config.beta_1, config.tau) == (0.1, 0.9, 1e-3)
    assert config.build().init(2).v_D.tolist() == [pytest.approx(1e-6)] * 2


def test_the_second_moment_only_grows() -> None:
    optimizer = Adagrad().build()
    exact_D, state = np.zeros(1, np.float32), optimizer.init(1)
    for agg in (1.0, 0.0, 0.5):
        before = state.v_D[0]
        exact_D, state = optimizer.update(exact_D, np.array([agg], np.float32), state)
        assert state.v_D[0] == pytest.approx(before + agg * agg, rel=1e-6)
