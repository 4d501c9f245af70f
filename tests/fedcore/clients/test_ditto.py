"""Ditto by hand: Li et al., ICML 2021, Algorithm 1."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.clients import Ditto, LocalSGD
from fedcore.errors import ConfigError
from fedcore.merging import PARAMETER
from fedcore.params import ParamSpec, place_tensors
from fedcore.recipes import FedAvg
from fedcore.typing import Array
from tests.fedcore.clients.trained import trained
from tests.laws.vectors import vector


def slope_of_two(w_D: Array, step: int) -> tuple[float, Array]:
    return 0.0, np.full_like(w_D, 2)


def downhill(w_D: Array, step: int) -> tuple[float, Array]:
    return float(np.square(w_D).sum() / 2), w_D.copy()


def test_two_tasks_by_hand() -> None:
    config = Ditto(lr=1, pull=0.5)
    # w: 10, 8, 6. v: 10, 8; then its gradient is 2 + ½·(8 - 10) = 1, and v is 7.
    first = trained(config, np.array([10], np.float32), 2, slope_of_two)
    assert first.delta_D.tolist() == [4]
    assert config.personal(first.state) == [7]
    # The next public model is 9. v: 7 - (2 + ½·(7 - 9)) = 6; 6 - (2 + ½·(6 - 9)) = 5.5.
    start_D = np.array([9], np.float32)
    second = trained(config, start_D, 2, slope_of_two, first.state)
    assert second.delta_D.tolist() == [4]
    assert config.personal(second.state) == [5.5]


@pytest.mark.parametrize("pull", [0.0, 0.3, 2.0])
def test_the_public_model_is_trained_as_by_local_sgd(pull: float) -> None:
    start_D, state = vector("gaussian", 50), None
    for _ in range(3):
        ours = trained(Ditto(pull=pull, lr=0.1), start_D, 4, downhill, state)
        plain = trained(LocalSGD(lr=0.1), start_D, 4, downhill)
        assert ours.delta_D.tobytes() == plain.delta_D.tobytes()
        start_D, state = start_D + 1, ours.state


def test_without_a_pull_the_personal_model_never_hears_of_the_others() -> None:
    config, state = Ditto(pull=0, lr=0.1), None
    start_D = vector("gaussian", 50)
    alone_D = start_D.copy()
    for public_D in (start_D, start_D + 7, start_D - 7):
        state = trained(config, public_D, 4, downhill, state).state
        alone_D = alone_D - trained(LocalSGD(lr=0.1), alone_D, 4, downhill).delta_D
    personal_D = config.personal(state)
    assert personal_D is not None
    np.testing.assert_allclose(personal_D, alone_D, rtol=1e-6)


def test_a_stronger_pull_keeps_the_personal_model_nearer() -> None:
    start_D = vector("gaussian", 50)
    far = [
        np.linalg.norm(start_D - state[:-1])
        for pull in (0, 0.1, 1, 5)
        if (state := trained(Ditto(pull=pull), start_D, 20, downhill).state) is not None
    ]
    assert len(far) == 4
    assert far == sorted(far, reverse=True)


def test_a_newcomer_in_a_stack_begins_with_the_public_model() -> None:
    config, start_ND = Ditto(lr=1, pull=0.5), np.full((2, 1), 9, np.float32)
    state_ND = np.array([[7, 1], [0, 0]], np.float32)  # the second has kept nothing
    found = trained(config, start_ND, np.array([2, 2]), slope_of_two, state_ND)
    assert found.state[:, 0].tolist() == [5.5, 6]


def test_local_tensors_are_refused_by_name() -> None:
    own = place_tensors([("head", (2,), PARAMETER)])
    spec = ParamSpec.of({"body": np.zeros(3)}, local=own)
    FedAvg(client=LocalSGD()).build(spec)
    with pytest.raises(ConfigError, match="says that 'head' does"):
        FedAvg(client=Ditto()).build(spec)
    with pytest.raises(ValidationError, match="no momentum, from task to task"):
        Ditto(momentum=0.5, keep_momentum=True)
    assert not Ditto().is_plain


@pytest.mark.parametrize(
    ("settings", "change", "limit"),
    [
        ({"lr": 0.1, "pull": 30}, "3", "2"),
        ({"lr": 1.0, "pull": 3.8, "momentum": 0.9}, "3.8", "3.8"),
    ],
)
def test_a_pull_that_takes_the_personal_model_away_is_refused(
    settings: dict[str, float], change: str, limit: str
) -> None:
    with pytest.raises(ValidationError, match=f"is {change}, and from {limit} on each"):
        Ditto(**settings)
    assert Ditto(**{**settings, "pull": settings["pull"] * 0.5})
