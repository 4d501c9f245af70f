"""A module as one flat vector."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.rng import Key
from fedcore.samples import as_samples
from fedtorch.flat import FlatModule, to_tensor
from fedtorch.modules import check_module, trainable
from tests.fedtorch.modules import X, Y, small, with_dropout, workload


def load(module: Any, spec: Any, w_D: Any) -> None:
    """Puts a flat vector into a plain module."""
    named = dict(module.named_parameters())
    with torch.no_grad():
        for name, values in spec.unflatten(w_D).items():
            named[name].copy_(torch.from_numpy(values.copy()))


def gradient(parameter: nn.Parameter) -> Any:
    """What autograd found for it."""
    assert parameter.grad is not None
    return parameter.grad.numpy()


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MultiMarginLoss()])
def test_the_gradient_is_that_of_autograd_bit_for_bit(loss: Callable[..., Any]) -> None:
    model = workload(loss=loss).flat()
    w_D = model.initial(Key.root(1))
    value, g_D = model.gradient(w_D, X, Y)

    plain = small()
    load(plain, model.spec, w_D)
    expected = loss(plain(X), Y)
    expected.backward()
    gradients = {name: gradient(p) for name, p in plain.named_parameters()}
    assert value == expected.item()
    assert g_D.tobytes() == model.spec.flatten(gradients).tobytes()


def test_a_second_gradient_is_not_added_to_the_first() -> None:
    model = workload().flat()
    w_D = model.initial(Key.root(1))
    first = model.gradient(w_D, X, Y)[1].copy()
    model.gradient(w_D + 1, X, Y)
    assert model.gradient(w_D, X, Y)[1].tobytes() == first.tobytes()


def test_steps_are_those_of_torch_sgd() -> None:
    model = workload().flat()
    w_D = model.initial(Key.root(1))
    plain: Any = small()
    load(plain, model.spec, w_D)
    for _ in range(5):
        w_D = w_D - np.float32(0.1) * model.gradient(w_D, X, Y)[1]
        plain.zero_grad()
        nn.CrossEntropyLoss()(plain(X), Y).backward()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter -= 0.1 * torch.from_numpy(gradient(parameter))
    named = {name: p.detach().numpy() for name, p in plain.named_parameters()}
    np.testing.assert_allclose(w_D, model.spec.flatten(named), rtol=1e-6, atol=1e-7)


def test_the_model_that_is_given_is_left_untouched() -> None:
    model = workload().flat()
    w_D = model.initial(Key.root(1))
    before = w_D.tobytes()
    w_D.setflags(write=False)
    model.gradient(w_D, X, Y)
    model.evaluate(w_D, (X, Y))
    assert w_D.tobytes() == before


def test_tied_parameters_are_one_and_count_once() -> None:
    def tied() -> Any:
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        module[2].weight = module[0].weight
        return module

    model = workload(tied, loss=lambda output, y: output.square().mean()).flat()
    assert [t.name for t in model.spec.tensors] == ["0.weight", "0.bias", "2.bias"]
    w_D = model.initial(Key.root(0))
    _, g_D = model.gradient(w_D, X, Y)
    plain = tied()
    load(plain, model.spec, w_D)
    plain(X).square().mean().backward()
    assert g_D[:16].tobytes() == gradient(plain[0].weight).tobytes()


def test_the_initial_model_follows_from_the_key_alone() -> None:
    torch.manual_seed(11)
    first_D = workload().flat().initial(Key.root(1))
    torch.manual_seed(12)
    model = workload().flat()
    second_D = model.initial(Key.root(1))
    model.gradient(second_D + 5, X, Y)
    assert (
        first_D.tobytes() == second_D.tobytes() == model.initial(Key.root(1)).tobytes()
    )
    assert model.initial(Key.root(2)).tobytes() != first_D.tobytes()


def test_drawing_the_initial_model_leaves_the_global_state_alone() -> None:
    model = workload().flat()
    before = torch.get_rng_state()
    model.initial(Key.root(1))
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_follows_from_the_key() -> None:
    model = workload(with_dropout).flat()
    w_D = model.initial(Key.root(0))
    losses = []
    for seed in (1, 1, 2):
        model.seed(Key.root(seed))
        losses.append([model.gradient(w_D, X, Y)[0] for _ in range(3)])
    assert losses[0] == losses[1] != losses[2]
    assert len(set(losses[0])) == 3


def test_evaluation_has_no_dropout_and_training_has_it_again() -> None:
    model = workload(with_dropout).flat()
    w_D = model.initial(Key.root(0))
    first, second = (model.evaluate(w_D, (X, Y))[0] for _ in range(2))
    assert first == second
    assert len({model.gradient(w_D, X, Y)[0] for _ in range(4)}) == 4


def test_evaluation_is_over_all_samples_whatever_the_batches() -> None:
    model = workload().flat()
    w_D = model.initial(Key.root(0))
    x, y = X.repeat(150, 1), Y.repeat(150)  # 1,500 rows: two batches
    metrics, samples = model.evaluate(w_D, (x, y))
    assert samples == 1500
    once, _ = model.evaluate(w_D, (X, Y))
    assert dict(metrics) == {k: pytest.approx(v, rel=1e-5) for k, v in once.items()}
    assert set(metrics) == {"loss", "accuracy"}


@pytest.mark.parametrize(
    "layer",
    [
        nn.GroupNorm(1, 5),
        nn.LayerNorm(5),
        nn.InstanceNorm1d(5),
        nn.BatchNorm1d(5, track_running_stats=False),
    ],
)
def test_normalisation_without_batch_statistics_is_welcome(layer: Any) -> None:
    module = nn.Sequential(nn.Linear(4, 5), layer)
    assert check_module(module) is module


def test_a_module_needs_parameters_to_train() -> None:
    with pytest.raises(ModelError, match="no parameters with requires_grad"):
        workload(nn.ReLU).flat()
    with pytest.raises(ModelError, match="no parameters with requires_grad"):
        workload(lambda: nn.Linear(4, 3).requires_grad_(False)).flat()


def test_parameters_of_another_precision_are_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"'weight' is torch\.float64"):
        workload(lambda: nn.Linear(4, 3).double()).flat()


def half_frozen(value: float) -> Any:
    """The first layer does not train."""
    module: Any = small()
    module[0].requires_grad_(False)
    nn.init.constant_(module[0].weight, value)
    nn.init.zeros_(module[0].bias)
    return module


def test_frozen_weights_stay_and_are_part_of_the_fingerprint() -> None:
    ours, again, theirs = (
        workload(lambda value=value: half_frozen(value)).flat()
        for value in (0.5, 0.5, 0.25)
    )
    assert [t.name for t in ours.spec.tensors] == ["2.weight", "2.bias"]
    assert ours.spec == again.spec
    difference = ours.spec.first_difference(theirs.spec)
    assert difference == (
        "the frozen weights are not the same: tensor '0.weight' differs"
    )
    assert workload().flat().spec.frozen == ""


def test_constant_buffers_are_frozen_too_even_single_numbers() -> None:
    class Scaled(nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)
            self.register_buffer("scale", torch.tensor(scale))
            self.register_buffer("mask", torch.tensor([True, False, True]))

    models = [workload(lambda scale=scale: Scaled(scale)).flat() for scale in (1, 1, 2)]
    prints = [model.spec.frozen for model in models]
    assert prints[0] == prints[1] != prints[2]
    assert set(trainable(Scaled(1.0))) == {"linear.weight", "linear.bias"}


def test_scalar_and_unused_parameters_can_be_trained() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)
            self.scale = nn.Parameter(torch.tensor(2.0))
            self.unused = nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> Any:
            return self.linear(x) * self.scale

    model = workload(Odd).flat()
    assert model.spec.dim == 12 + 3 + 1 + 2
    _, g_D = model.gradient(model.initial(Key.root(0)), X, Y)
    named = model.spec.unflatten(g_D)
    assert named["scale"].shape == ()
    assert named["scale"] != 0
    assert named["unused"].tolist() == [0, 0]


def test_arrays_become_tensors_that_share_their_memory() -> None:
    x = np.ones((2, 2), np.float32)
    assert to_tensor(x).data_ptr() == x.ctypes.data
    assert to_tensor(np.ones(2)).dtype == torch.float32
    assert to_tensor(np.ones(2, np.int64)).dtype == torch.int64
    named = to_tensor({"a": x, "b": (x, [1.0, 2.0])})
    assert named["b"][1].tolist() == [1, 2]
    assert to_tensor(X) is X


def test_layers_that_stay_frozen_are_drawn_alike_everywhere() -> None:
    def half_frozen() -> nn.Module:
        module = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 10))
        module[0].requires_grad_(False)
        return module

    def found(seed: int) -> tuple[str, list[float]]:
        torch.manual_seed(seed)  # whatever the program has drawn before
        before = torch.get_rng_state()
        model = FlatModule(half_frozen, nn.CrossEntropyLoss(), None, as_samples)
        assert torch.equal(torch.get_rng_state(), before)
        w_D = model.initial(Key.root(3))
        x = np.linspace(-1, 1, 64 * 5, dtype=np.float32).reshape(5, 64)
        return model.spec.frozen, [model.gradient(w_D, x, np.arange(5))[0]]

    assert found(1) == found(2)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3)])
def test_data_keep_their_shape_as_tensors(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    for given in (array, array.T, array[::-1] if shape else array):
        assert to_tensor(given).shape == given.shape
