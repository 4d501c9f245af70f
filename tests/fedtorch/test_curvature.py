"""Second derivatives of modules and of named functions."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from fedcore.errors import ModelError
from fedcore.influence.base import Curvature
from fedcore.model import FlatModel
from fedcore.rng import Key
from fedcore.workload import Workload
from fedtorch import TorchWorkload
from fedtorch.curvature import ModuleCurvature
from tests.fedtorch import stacks
from tests.fedtorch.test_models import READY, drawn

DRAWS = torch.Generator().manual_seed(0)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 6)


def of(model: Any) -> tuple[FlatModel, Curvature, Any]:
    mine = TorchWorkload(
        model=model, loss=nn.CrossEntropyLoss(), train_data=lambda client: (X, Y)
    )
    flat = mine.flat()
    return flat, mine.curvature(flat), flat.initial(Key.root(0))


def _hessian(loss: Any, w: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.autograd.functional.hessian(loss, w)  # type: ignore[no-untyped-call]
    return found


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def test_products_are_those_of_the_hessian() -> None:
    flat, curvature, w_D = of(network)
    module = network()
    parameters = list(module.parameters())

    def loss(w: torch.Tensor) -> torch.Tensor:
        parts = torch.split(w, [each.numel() for each in parameters])
        shaped = [p.view(e.shape) for p, e in zip(parts, parameters, strict=True)]
        hidden = torch.tanh(torch.tensor(X) @ shaped[0].T + shaped[1])
        return nn.functional.cross_entropy(
            hidden @ shaped[2].T + shaped[3], torch.tensor(Y)
        )

    exact_DD = _hessian(loss, torch.tensor(w_D)).numpy()
    v_CD = np.random.default_rng(1).standard_normal((3, flat.spec.dim))
    found = curvature.hessian(w_D, X, Y)
    np.testing.assert_allclose(found.product(v_CD), v_CD @ exact_DD, atol=1e-5)
    value, g_D = flat.gradient(w_D, X, Y)
    assert found.loss == pytest.approx(value)
    np.testing.assert_array_equal(found.gradient_D, g_D)


def test_all_vectors_at_once_are_multiplied_as_one_by_one() -> None:
    _, curvature, w_D = of(network)
    assert isinstance(curvature, ModuleCurvature)
    v_CD = np.random.default_rng(3).standard_normal((3, len(w_D)))
    together_CD = curvature.hessian(w_D, X, Y).product(v_CD)
    curvature._is_batched = False
    each_CD = curvature.hessian(w_D, X, Y).product(v_CD)
    np.testing.assert_allclose(together_CD, each_CD, atol=1e-5)


def test_zero_vectors_and_a_linear_loss_are_not_bent() -> None:
    mine = TorchWorkload(
        model=lambda: nn.Linear(5, 1),
        loss=lambda output, target: (output[:, 0] * target).mean(),
        train_data=lambda client: (X, X[:, 0]),
    )
    flat = mine.flat()
    w_D = flat.initial(Key.root(0))
    product = mine.curvature(flat).hessian(w_D, X, X[:, 0]).product
    assert not product(np.ones((2, flat.spec.dim))).any()
    _, curvature, w_D = of(network)
    assert not curvature.hessian(w_D, X, Y).product(np.zeros((2, len(w_D)))).any()


def test_differences_of_gradients_come_near() -> None:
    flat, curvature, w_D = of(network)
    v_CD = np.random.default_rng(2).standard_normal((2, flat.spec.dim))
    exact_CD = curvature.hessian(w_D, X, Y).product(v_CD)
    near = Workload.curvature(
        TorchWorkload(
            model=network, loss=nn.CrossEntropyLoss(), train_data=lambda client: None
        ),
        flat,
    )
    found_CD = near.hessian(w_D, X, Y).product(v_CD)
    apart = np.linalg.norm(found_CD - exact_CD) / np.linalg.norm(exact_CD)
    assert 0 < apart < 1e-3


def test_sample_gradients_add_up_and_use_up_no_random_draws() -> None:
    flat, curvature, w_D = of(lambda: nn.Sequential(nn.Dropout(0.5), network()))
    flat.seed(Key.root(1))
    expected = torch.rand(3)
    flat.seed(Key.root(1))
    curvature.sample_gradients(w_D, X, Y, np.arange(6))
    assert torch.equal(torch.rand(3), expected)
    flat, curvature, w_D = of(network)
    found_BD = curvature.sample_gradients(w_D, X, Y, np.arange(6))
    np.testing.assert_allclose(
        found_BD.mean(axis=0), flat.gradient(w_D, X, Y)[1], atol=1e-6
    )


class _Distances(nn.Module):
    """Scores by distances (cdist), which torch differentiates once."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(x, self.places)


def test_an_operation_that_is_differentiable_once_is_told() -> None:
    _, curvature, w_D = of(_Distances)
    found = curvature.hessian(w_D, X, Y)
    with pytest.raises(ModelError, match="use the Fisher estimator"):
        found.product(np.ones((1, len(w_D))))


class _Bent(torch.autograd.Function):
    """tanh, whose backward pass hides from autograd how it depends on its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * (1 - torch.tanh(x.detach()) ** 2)


class _Once(torch.autograd.Function):
    """x²/2 summed over the classes, which is differentiable once."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.square().sum() / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * x


class _Applied(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.function(x)
        return result


def _with(function: Any) -> Any:
    return lambda: nn.Sequential(nn.Linear(5, 4), _Applied(function), nn.Linear(4, 3))


@pytest.mark.parametrize(
    "model",
    [
        _with(_Bent.apply),
        _with(lambda x: x * torch.tanh(x).detach()),
        lambda: nn.Sequential(nn.Dropout(0.2), _with(_Bent.apply)()),
    ],
    ids=["a function of its own", "a detached factor", "with dropout before it"],
)
def test_products_that_are_not_those_of_the_gradients_are_told(model: Any) -> None:
    _, curvature, w_D = of(model)
    with pytest.raises(ModelError, match=r"not match its gradients.*Fisher"):
        curvature.check(w_D, X, Y)


def test_a_loss_that_is_silently_differentiated_once_is_told() -> None:
    mine = TorchWorkload(
        model=network,
        loss=lambda output, target: _Once.apply(output),  # type: ignore[no-untyped-call]
        train_data=lambda client: (X, Y),
    )
    flat = mine.flat()
    with pytest.raises(ModelError, match="do not match its gradients"):
        mine.curvature(flat).check(flat.initial(Key.root(0)), X, Y)


@pytest.mark.parametrize(
    "model",
    [
        network,
        lambda: nn.Sequential(nn.Dropout(0.5), network()),
        _with(torch.relu),
        _with(lambda x: x.bfloat16().to(x.dtype)),
        _with(lambda x: x.float().tanh().to(x.dtype)),
        _with(lambda x: x * (1 + torch.rand(4, generator=DRAWS))),
        _with(lambda x: torch.tanh(x) @ torch.eye(4)),
    ],
    ids=["smooth", "dropout", "ReLU", "bfloat16", "float32", "random", "float32 alone"],
)
def test_other_models_pass(model: Any) -> None:
    _, curvature, w_D = of(model)
    curvature.check(w_D, X, Y)


@pytest.mark.parametrize("name", READY)
def test_the_ready_models_pass(name: str) -> None:
    flat = stacks.flat(READY[name].build)
    x, y = (each[0] for each in drawn(READY[name], 1, 4))
    x[:2, ..., :2] = 0  # a border, where many values are equal
    ModuleCurvature(flat).check(flat.initial(Key.root(0)), x, y)


def test_a_check_uses_up_no_random_draws_and_changes_no_weights() -> None:
    flat, curvature, w_D = of(network)
    before, expected = w_D.copy(), flat.gradient(w_D, X, Y)[1].copy()
    flat.seed(Key.root(1))
    draws = torch.rand(3)
    flat.seed(Key.root(1))
    curvature.check(w_D, X, Y)
    assert torch.equal(torch.rand(3), draws)
    np.testing.assert_array_equal(w_D, before)
    np.testing.assert_array_equal(flat.gradient(w_D, X, Y)[1], expected)


def test_named_functions_have_a_curvature_too() -> None:
    def gradient(params: Any, x: Any, y: Any) -> tuple[float, dict[str, Any]]:
        return float(params["w"] ** 2 @ x[0]), {"w": 2 * params["w"] * x[0]}

    mine = Workload(
        initial=lambda rng: {"w": np.ones(5, np.float32)},
        gradient=gradient,
        train_data=lambda client: (X, Y),
    )
    flat = mine.flat()
    w_D = flat.initial(Key.root(0))
    found = mine.curvature(flat).hessian(w_D, X, Y).product(np.eye(5))
    np.testing.assert_allclose(found, np.diag(2 * X[0]), atol=1e-3)
    mine.curvature(flat).check(w_D, X, Y)


@pytest.mark.processes
def test_second_derivatives_import_no_compiler() -> None:
    code = (
        "import sys, numpy as np, torch\n"
        "from tests.fedtorch.test_curvature import of, network, X, Y\n"
        "_, curvature, w = of(network)\n"
        "curvature.hessian(w, X, Y).product(np.ones((2, len(w))))\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
