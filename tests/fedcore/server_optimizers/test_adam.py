"""FedAdam by hand: Reddi et al., ICLR 2021, Algorithm 2, v ← 0.99·v + 0.01·Δ²."""

import numpy as np
import pytest

from fedcore.server_optimizers import Adam
from tests.fedcore.server_optimizers.by_hand import Steps, check_steps


def test_two_steps_by_hand() -> None:
    steps = Steps(
        m=[0.1 * -0.5, 0.9 * -0.05 + 0.1 * 0.25],
        v=[0.99e-6 + 0.0025, 0.99**2 * 1e-6 + 0.99 * 0.0025 + 0.000625],
        x=[0.9019798, 0.8666980],
    )
    check_steps(Adam(), steps)


def test_the_defaults_are_those_of_the_specification() -> None:
    config = Adam()
    assert (config.lr, config.beta_1, config.tau) == (0.1, 0.9, 1e-3)
    assert config.build().init(2).v_D.tolist() == [pytest.approx(1e-6)] * 2


def test_there_is_no_bias_correction() -> None:
    optimizer = Adam(tau=1e-9).build()
    agg_D = np.array([2.0], np.float32)
    moved_D, _ = optimizer.update(np.zeros(1, np.float32), agg_D, optimizer.init(1))
    # m/√v = 0.1·Δ/(0.1·|Δ|): with these β a correction would change nothing.
    assert moved_D[0] == pytest.approx(-0.1)
    other = Adam(tau=1e-9, beta_2=0.96).build()
    moved_D, _ = other.update(np.zeros(1, np.float32), agg_D, other.init(1))
    assert moved_D[0] == pytest.approx(-0.1 * 0.1 / 0.2)
