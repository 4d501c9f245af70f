"""Which modules a compiled loop trains, and that it trains them as gradients would."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedcore.clients import Batches, ClientAlgorithmConfig, FedProx, LocalSGD, Trained
from fedcore.kernels import dense
from fedcore.workload import Steps
from fedtorch.stacked import Stacked
from tests.fedtorch.stacks import flat

pytestmark = pytest.mark.skipif(
    not dense.available, reason="the kernels were not compiled"
)
ALGORITHMS: dict[str, ClientAlgorithmConfig] = {
    "plain": LocalSGD(lr=0.1),
    "momentum": LocalSGD(lr=0.1, momentum=0.9),
    "kept momentum": LocalSGD(lr=0.1, momentum=0.9, keep_momentum=True),
    "weight decay": LocalSGD(lr=0.1, weight_decay=0.1),
    "proximal": FedProx(lr=0.1, mu=0.5),
    "everything": FedProx(
        lr=0.1, mu=0.5, momentum=0.5, weight_decay=0.1, keep_momentum=True
    ),
}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def stacked_of(build: Any, loss: Any = None) -> Stacked:
    found = flat(build, loss or nn.CrossEntropyLoss()).stacked()
    assert isinstance(found, Stacked)
    return found


def given_steps(
    model: Stacked, config: ClientAlgorithmConfig, seed: int, *, second: bool = False
) -> Steps:
    rng = np.random.default_rng(seed)
    dim, count = model._spec.dim, 4
    steps_N = -np.sort(-rng.integers(1, 4, count))
    sizes_NS = rng.integers(1, 8, (count, 3))
    sizes_NS[np.arange(3) >= steps_N[:, None]] = 0
    descent = config.build().descent
    assert descent is not None
    return Steps(
        descent,
        rng.normal(size=(20, 2, 3)).astype(np.float32),
        rng.integers(0, 3, 20),
        rng.integers(0, 20, (count, 3, 7)),
        sizes_NS,
        rng.normal(0, 0.5, (count, dim)).astype(np.float32),
        rng.normal(0, 0.5, (count, dim)).astype(np.float32) if second else None,
    )


def by_gradients(
    model: Stacked, config: ClientAlgorithmConfig, steps: Steps
) -> Trained:
    """As any other model is trained."""
    batches = Batches(steps.rows_NSB, steps.sizes_NS)

    def gradient(w_ND: Any, step: int) -> Any:
        rows = batches.rows_NSB[: len(w_ND), step]
        sizes_N = batches.sizes_NS[: len(w_ND), step]
        return model.gradient(w_ND, steps.x[rows], steps.y[rows], sizes_N)

    steps_N = np.count_nonzero(batches.sizes_NS, axis=1)
    return config.build().run(steps.start_ND, steps_N, gradient, steps.state)


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999))
def test_its_steps_are_those_of_the_client_algorithm(name: str, seed: int) -> None:
    config, model = ALGORITHMS[name], stacked_of(mlp)
    keeps = "kept" in name or name == "everything"
    steps = given_steps(model, config, seed, second=keeps)
    expected = by_gradients(model, config, steps)
    found = model.descend(steps)
    assert found is not None
    delta_ND = steps.start_ND - expected.w_D
    np.testing.assert_allclose(found.delta_ND, delta_ND, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.loss_N, expected.loss, rtol=1e-4, atol=1e-5)
    assert (found.state is None) == (expected.state is None) == (not keeps)
    if keeps:
        np.testing.assert_allclose(found.state, expected.state, rtol=1e-4, atol=1e-5)


def test_what_was_kept_is_not_written_to() -> None:
    config, model = ALGORITHMS["kept momentum"], stacked_of(mlp)
    steps = given_steps(model, config, 0, second=True)
    before = steps.state.copy()
    model.descend(steps)
    assert np.array_equal(steps.state, before)


def frozen() -> nn.Module:
    module = mlp()
    next(module.parameters()).requires_grad_(False)
    return module


def tied() -> nn.Module:
    one = nn.Linear(6, 6)
    return nn.Sequential(nn.Flatten(), one, nn.ReLU(), one)


OTHERS: dict[str, Any] = {
    "another activation": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    ),
    "ends with an activation": (lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU())),
    "two in a row": lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)),
    "frozen": frozen,
    "tied": tied,
    "dropout": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 3)),
    "too large": lambda: nn.Linear(2048, 1024),
    "flattens less": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(6, 3)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_modules_are_left_to_gradients(name: str) -> None:
    assert stacked_of(OTHERS[name])._dense is None


@pytest.mark.parametrize(
    "loss", [nn.MSELoss(), nn.CrossEntropyLoss(label_smoothing=0.1)]
)
def test_other_losses_are_left_to_gradients(loss: Any) -> None:
    assert stacked_of(mlp, loss)._dense is None


def test_plain_layers_are_taken() -> None:
    for build in (
        mlp,
        lambda: nn.Linear(6, 3),
        lambda: nn.Sequential(nn.Linear(6, 3, bias=False)),
        lambda: nn.Sequential(
            nn.Sequential(nn.Linear(6, 4), nn.ReLU()), nn.Linear(4, 3)
        ),
    ):
        assert "compiled loop" in stacked_of(build).how


@pytest.mark.parametrize(
    "change",
    [
        {"x": np.zeros((20, 2, 3))},
        {"x": np.zeros((20, 2, 2), np.float32)},
        {"x": np.zeros((20, 4, 3), np.float32)[:, ::2]},
        {"x": (np.zeros((20, 6), np.float32),)},
        {"y": np.zeros(20, np.int32)},
        {"y": np.zeros((20, 3), np.float32)},
        {"y": np.full(20, 3)},
    ],
)
def test_other_data_are_left_to_gradients(change: Any) -> None:
    model = stacked_of(mlp)
    steps = given_steps(model, ALGORITHMS["plain"], 0)
    assert model.descend(steps) is not None
    assert model.descend(steps._replace(**change)) is None


def test_tensors_are_taken_as_they_are() -> None:
    model = stacked_of(mlp)
    steps = given_steps(model, ALGORITHMS["plain"], 0)
    tensors = steps._replace(x=torch.tensor(steps.x), y=torch.tensor(steps.y))
    expected = model.descend(steps)
    assert expected is not None
    found = model.descend(tensors)
    assert found is not None
    assert np.array_equal(found.delta_ND, expected.delta_ND)
