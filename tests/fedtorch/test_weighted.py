"""Gradients of samples that have weights, and the norms at a module's output."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.clients import PrioritisedSGD
from fedcore.errors import ConfigError, ModelError
from fedcore.recipes import FedBuff
from fedcore.rng import Key
from fedcore.training import Trainer
from fedtorch import TorchWorkload

ROWS, CLASSES = 7, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 5)).astype(np.float32)
Y = RNG.integers(0, CLASSES, ROWS)
WEIGHTS = RNG.uniform(0.2, 5, ROWS).astype(np.float32)
ONES = np.ones(ROWS, np.float32)


def workload(model: Any = None, loss: Any = None, **more: Any) -> TorchWorkload:
    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, CLASSES))

    return TorchWorkload(
        model=model or mlp,
        loss=loss or nn.CrossEntropyLoss(),
        train_data=lambda client: (X, Y),
        **more,
    )


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))


def trainer(work: TorchWorkload, priority: Any) -> Trainer:
    client = PrioritisedSGD(steps=3, batch=4, priority=priority)
    model = work.flat()
    return Trainer(work, FedBuff(client=client).build(model.spec), model=model)


@pytest.mark.parametrize("weights_B", [WEIGHTS, ONES])
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.functional.cross_entropy])
def test_both_ways_compute_the_same_weighted_gradient(
    weights_B: Any, loss: Any
) -> None:
    work = workload(loss=loss)
    model = work.flat()
    w_D = model.initial(Key.root(1))
    one, other = (
        work.weighted_gradient(model, priority)(w_D, X, Y, weights_B)
        for priority in ("gradient_norm", "estimate")
    )
    assert other.loss == pytest.approx(one.loss, rel=1e-5)
    np.testing.assert_allclose(other.gradient_D, one.gradient_D, rtol=1e-4, atol=1e-6)


def test_with_weights_of_one_it_is_the_gradient() -> None:
    work = workload()
    model = work.flat()
    w_D = model.initial(Key.root(1))
    found = work.weighted_gradient(model, "estimate")(w_D, X, Y, ONES)
    gradient_D = found.gradient_D.copy()
    loss, expected_D = model.gradient(w_D, X, Y)
    assert found.loss == loss
    np.testing.assert_allclose(gradient_D, expected_D, rtol=1e-5, atol=1e-7)


def test_the_estimate_of_cross_entropy_is_the_distance_to_the_label() -> None:
    work = workload()
    model = work.flat()
    w_D = model.initial(Key.root(1))
    found = work.weighted_gradient(model, "estimate")(w_D, X, Y, WEIGHTS)
    module = work.model()
    nn.utils.vector_to_parameters(torch.from_numpy(w_D), module.parameters())
    chances = module(torch.from_numpy(X)).softmax(1)
    apart = chances - nn.functional.one_hot(torch.from_numpy(Y), CLASSES)
    expected_B = apart.norm(dim=1).detach().numpy()
    np.testing.assert_allclose(found.norms_B, expected_B, rtol=1e-4)


def test_outputs_of_more_than_two_dimensions_have_estimates() -> None:
    work = workload(
        lambda: nn.Sequential(nn.Linear(5, 6), nn.Unflatten(1, (2, 3))),
        lambda output, y: output.square().mean(),
    )
    model = work.flat()
    w_D = model.initial(Key.root(1))
    one, other = (
        work.weighted_gradient(model, priority)(w_D, X, Y, WEIGHTS)
        for priority in ("gradient_norm", "estimate")
    )
    assert other.norms_B.shape == (ROWS,)
    np.testing.assert_allclose(other.gradient_D, one.gradient_D, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("priority", ["gradient_norm", "estimate"])
def test_a_task_with_local_tensors_keeps_both(priority: Any) -> None:
    found = trainer(workload(local=["2.*"]), priority)
    model = found.model
    done = found.train(model.initial(Key.root(1)), (X, Y), Key.root(2))
    again = found.train(model.initial(Key.root(1)), (X, Y), Key.root(3), done.kept)
    assert np.isfinite(again.delta_D).all()
    assert {len(done.kept["method"]), len(again.kept["method"])} == {ROWS}


def test_batch_statistics_need_estimates() -> None:
    with pytest.raises(ConfigError, match="use priority: estimate"):
        trainer(workload(normed), "gradient_norm")
    found = trainer(workload(normed), "estimate")
    done = found.train(found.model.initial(Key.root(1)), (X, Y), Key.root(2))
    assert np.isfinite(done.delta_D).all()


class Pair(nn.Module):
    """Two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, CLASSES)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), x


def test_outputs_that_are_not_one_tensor_are_refused() -> None:
    work = workload(Pair, lambda pair, y: nn.functional.cross_entropy(pair[0], y))
    found = trainer(work, "estimate")
    with pytest.raises(ModelError, match="not one tensor with a row for each sample"):
        found.train(found.model.initial(Key.root(1)), (X, Y), Key.root(2))
    found = trainer(work, "gradient_norm")
    found.train(found.model.initial(Key.root(1)), (X, Y), Key.root(2))
