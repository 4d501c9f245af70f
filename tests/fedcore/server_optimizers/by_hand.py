"""Steps of FedOpt that were computed by hand."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from fedcore.server_optimizers import ServerOptimizerConfig


class Steps(NamedTuple):
    """Both moments and the model, which starts at 1, after each aggregate."""

    m: Sequence[float]
    v: Sequence[float]
    x: Sequence[float]


def check_steps(config: ServerOptimizerConfig, expected: Steps) -> None:
    """Aggregates of ½ and -¼, that is Δ = -½ and ¼."""
    optimizer = config.build()
    exact_D, state = np.ones(1, np.float32), optimizer.init(1)
    for step, agg in enumerate([0.5, -0.25]):
        exact_D, state = optimizer.update(exact_D, np.array([agg], np.float32), state)
        assert state.m_D[0] == pytest.approx(expected.m[step], rel=1e-6)
        assert state.v_D[0] == pytest.approx(expected.v[step], rel=1e-5)
        assert exact_D[0] == pytest.approx(expected.x[step], rel=1e-6)
