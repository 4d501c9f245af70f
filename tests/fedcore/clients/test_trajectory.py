"""Trajectory-regularised SGD by hand: Zhang et al., IJCAI 2019."""

import numpy as np
import pytest

from fedcore.clients import TrajectoryAdam, TrajectorySGD
from fedcore.lr_schedules import Step
from fedcore.typing import Array
from tests.fedcore.clients.trained import trained


def test_inner_loops_by_hand() -> None:
    # A slope of 1, lr 1, 2 λ = 0.5, S = 2: from 10 to 9, then (1 + .5 (9 - 10)) / 2 on
    # to 8.75; the next loop goes to 7.75 and 7.5.
    def slope(w_D: Array, step: int) -> tuple[float, Array]:
        return 1.0, np.ones(1, np.float32)

    config = TrajectorySGD(
        lr=1, momentum=0, weight_decay=0, strength=0.25, inner_steps=2
    )
    ends = [
        float(10 - trained(config, np.full(1, 10, np.float32), steps, slope).delta_D[0])
        for steps in range(1, 5)
    ]
    assert ends == [9, 8.75, 7.75, 7.5]


@pytest.mark.parametrize("config", [TrajectorySGD(), TrajectoryAdam()])
def test_the_regulariser_grows_as_the_rate_falls(
    config: TrajectorySGD | TrajectoryAdam,
) -> None:
    scheduled = config.model_copy(update={"schedule": Step(every=5, factor=0.5)})
    later = scheduled.at(10)
    assert later.lr == config.lr / 4
    assert later.strength == config.strength * 4
    assert later.rule().pull == 8 * config.strength


@pytest.mark.parametrize("config", [TrajectorySGD(), TrajectoryAdam()])
def test_a_rate_that_has_fallen_to_almost_nothing_trains_no_nan(
    config: TrajectorySGD | TrajectoryAdam,
) -> None:
    def slope(w_D: Array, step: int) -> tuple[float, Array]:
        return 1.0, np.ones(1, np.float32)

    scheduled = config.model_copy(update={"schedule": Step(every=1, factor=0.1)})
    for version in (38, 41, 10_000):
        start_D = np.ones(1, np.float32)
        delta_D = trained(scheduled.at(version), start_D, 3, slope).delta_D
        assert np.isfinite(delta_D).all(), version


def test_a_stronger_regulariser_keeps_closer_to_where_the_loop_began() -> None:
    def slope(w_D: Array, step: int) -> tuple[float, Array]:
        return 1.0, np.ones(1, np.float32)

    start_D = np.zeros(1, np.float32)
    moved = [
        float(np.abs(trained(TrajectorySGD(strength=s), start_D, 10, slope).delta_D)[0])
        for s in (0, 0.1, 1.0)
    ]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]
