"""Which modules a compiled loop trains, and that it trains them as gradients would."""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedcore import clients
from fedcore.clients import (
    Batches,
    ClientAlgorithmConfig,
    FedProx,
    LocalAdam,
    LocalAdamW,
    LocalConfig,
    LocalSGD,
    Scaffold,
    Taken,
    TrajectoryAdam,
    TrajectorySGD,
)
from fedcore.model import Steps
from fedtorch.compiled import loop
from fedtorch.stacked import Stacked
from tests.fedtorch.stacks import flat

pytestmark = pytest.mark.skipif(not loop.available, reason="the loop was not compiled")
ALGORITHMS: dict[str, ClientAlgorithmConfig] = {
    "plain": LocalSGD(lr=0.1),
    "momentum": LocalSGD(lr=0.1, momentum=0.9),
    "kept momentum": LocalSGD(lr=0.1, momentum=0.9, keep_momentum=True),
    "weight decay": LocalSGD(lr=0.1, weight_decay=0.1),
    "proximal": FedProx(lr=0.1, mu=0.5),
    "everything": FedProx(
        lr=0.1, mu=0.5, momentum=0.5, weight_decay=0.1, keep_momentum=True
    ),
    "control variates": Scaffold(lr=0.1),
    "control variates and decay": Scaffold(lr=0.1, weight_decay=0.1),
    "nesterov": LocalSGD(lr=0.1, momentum=0.9, nesterov=True),
    "clipped by norm": LocalSGD(lr=0.1, clip_norm=0.1, weight_decay=0.1),
    "clipped by value": FedProx(lr=0.1, clip_value=0.01, clip_norm=0.5, momentum=0.5),
    "adam": LocalAdam(lr=0.01, eps=0.01),
    "adam with decay": LocalAdam(lr=0.01, eps=0.01, weight_decay=0.1, clip_norm=0.1),
    "kept moments": LocalAdam(lr=0.01, eps=0.01, keep_moments=True),
    "adam_w": LocalAdamW(lr=0.01, eps=0.01, weight_decay=0.5, keep_moments=True),
    "trajectory": TrajectorySGD(lr=0.1, inner_steps=2, strength=0.5),
    "trajectory of adam": TrajectoryAdam(
        lr=0.01, eps=0.01, inner_steps=2, strength=0.5, keep_moments=True
    ),
    "frozen": LocalSGD(lr=0.1, momentum=0.9, weight_decay=0.1, clip_norm=0.1),
    "frozen adam_w": LocalAdamW(lr=0.01, eps=0.01, weight_decay=0.5),
}
KEEP = {
    *("kept momentum", "everything", "control variates", "control variates and decay"),
    *("kept moments", "adam_w", "trajectory of adam"),
}
CLASSES = 3


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 9, (3, 2), stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(9, 5, 2, bias=False),
        nn.AvgPool2d((1, 2)),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(5, 4),
        nn.ReLU(),
        nn.Linear(4, 3),
    )


def signals() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(2, 3, 4, stride=2, padding=2),
        nn.MaxPool1d(3, stride=1, padding=1),
        nn.ReLU(),
        nn.Conv1d(3, 10, 3, padding="same"),
        nn.AdaptiveAvgPool1d(3),
        nn.Flatten(),
        nn.Linear(30, 3),
    )


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (2, 3)),
    "cnn": (cnn, (2, 6, 7)),
    "signals": (signals, (2, 9)),
}


def stacked_of(build: Any, loss: Any = None) -> Stacked:
    found = flat(build, loss or nn.CrossEntropyLoss()).stack()
    assert isinstance(found, Stacked)
    return found


def given_steps(
    model: Stacked,
    config: ClientAlgorithmConfig,
    seed: int,
    *,
    shape: tuple[int, ...] = (2, 3),
    batch: int = 7,
    second: bool = False,
) -> Steps:
    """Ragged batches of four clients, of which some take fewer steps."""
    rng = np.random.default_rng(seed)
    dim, count = model._spec.dim, 4
    steps_N = -np.sort(-rng.integers(1, 4, count))
    sizes_NS = rng.integers(1, batch + 1, (count, 3))
    sizes_NS[np.arange(3) >= steps_N[:, None]] = 0
    assert isinstance(config, LocalConfig)
    rule = config.rule()
    if second:
        velocity_ND = rng.normal(0, 0.5, (count, dim)).astype(np.float32)
        rule = rule._replace(velocity_D=velocity_ND)
    return Steps(
        rule,
        rng.normal(size=(20, *shape)).astype(np.float32),
        rng.integers(0, CLASSES, 20),
        rng.integers(0, 20, (count, 3, batch)),
        sizes_NS,
        rng.normal(0, 0.5, (count, dim)).astype(np.float32),
    )


def by_gradients(model: Stacked, steps: Steps) -> Taken:
    """As any other model is trained."""
    batches = Batches(steps.rows_NSB, steps.sizes_NS)

    def gradient(w_ND: Any, step: int) -> Any:
        rows = batches.rows_NSB[: len(w_ND), step]
        sizes_N = batches.sizes_NS[: len(w_ND), step]
        return model.gradient(w_ND, steps.x[rows], steps.y[rows], sizes_N)

    steps_N = np.count_nonzero(batches.sizes_NS, axis=1)
    take = clients.by_gradients(gradient, steps_N, frozen=steps.frozen)
    return take(steps.start_ND, steps.rule)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 999), shared=st.booleans())
def test_two_tasks_are_those_that_gradients_train(
    name: str, module: str, seed: int, shared: bool
) -> None:
    build, shape = MODULES[module]
    config, model = ALGORITHMS[name], stacked_of(build)
    steps = given_steps(model, config, seed, shape=shape)
    if "frozen" in name:
        tensors = model._spec.tensors
        steps = steps._replace(frozen=(tensors[0].slice, tensors[-1].slice))
    rng = np.random.default_rng(seed)
    dim = model._spec.dim * (1 + len(config.companions))
    rows = rng.normal(0, 0.3, (1 if shared else 4, dim)).astype(np.float32)
    start_ND = np.broadcast_to(rows, (4, dim))
    steps_N = np.count_nonzero(steps.sizes_NS, axis=1)

    def compiled(start_ND: Any, rule: Any) -> Taken:
        taken = model.descend(steps._replace(start_ND=start_ND, rule=rule))
        assert taken is not None
        return taken

    def gradients(start_ND: Any, rule: Any) -> Taken:
        return by_gradients(model, steps._replace(start_ND=start_ND, rule=rule))

    run, found_state, expected_state = config.build().run, None, None
    for _ in range(2):
        found = run(start_ND, steps_N, compiled, found_state)
        expected = run(start_ND, steps_N, gradients, expected_state)
        model_D = slice(model._spec.dim)
        assert_near(found.delta_D[:, model_D], expected.delta_D[:, model_D], 1e-4)
        assert_near(found.delta_D, expected.delta_D, 1e-3)
        assert_near(found.loss, expected.loss, 1e-4)
        for part in steps.frozen:
            assert not found.delta_D[:, part].any()
            assert not expected.delta_D[:, part].any()
        found_state, expected_state = found.state, expected.state
        assert (found_state is None) == (expected_state is None)
        assert (found_state is None) == (name not in KEEP)
        if found_state is not None:
            assert_near(found_state, expected_state, 1e-3)


def assert_near(found: Any, expected: Any, within: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=within)


def in_double(
    build: Callable[[], nn.Module], steps: Steps, client: int
) -> tuple[Any, float]:
    """Plain steps of one client: what they take away, and the mean loss."""
    module = build().double()
    start = torch.from_numpy(steps.start_ND[client]).double()
    nn.utils.vector_to_parameters(start.clone(), module.parameters())
    losses = []
    for rows, size in zip(steps.rows_NSB[client], steps.sizes_NS[client], strict=True):
        if not size:
            break
        x = torch.from_numpy(steps.x[rows[:size]]).double()
        loss = nn.CrossEntropyLoss()(module(x), torch.from_numpy(steps.y[rows[:size]]))
        found = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, g in zip(module.parameters(), found, strict=True):
                parameter.sub_(steps.rule.lr * g)
        losses.append(loss.item())
    end = nn.utils.parameters_to_vector(module.parameters()).detach()
    return (start - end).numpy(), float(np.mean(losses))


@st.composite
def networks(draw: Any) -> tuple[Callable[[], nn.Module], tuple[int, ...]]:
    """Convolutions and pools of any settings for small images, and linear layers."""
    image = draw(st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9)))
    shape, layers = image, list[Callable[[], nn.Module]]()

    def add(make: Any, *given: Any, **named: Any) -> None:
        layers.append(lambda: make(*given, **named))

    for _ in range(draw(st.integers(1, 3))):
        most = [min(4, size) for size in shape[1:]]
        kernel = tuple(draw(st.integers(1, size)) for size in most)
        stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
        kind = draw(st.sampled_from(["conv", "conv", "max", "mean", "parts"]))
        if kind == "conv":
            pad = tuple(draw(st.integers(0, k - 1)) for k in kernel)
            out, bias = draw(st.integers(1, 20)), draw(st.booleans())
            add(nn.Conv2d, shape[0], out, kernel, stride, pad, bias=bias)
        elif kind == "max":
            add(nn.MaxPool2d, kernel, stride, tuple(k // 2 for k in kernel))
        elif kind == "mean":
            add(nn.AvgPool2d, kernel, stride)
        else:
            add(nn.AdaptiveAvgPool2d, draw(st.tuples(*[st.integers(1, 4)] * 2)))
        shape = tuple(layers[-1]()(torch.zeros(1, *shape)).shape[1:])
        if draw(st.booleans()):
            add(nn.ReLU)
    add(nn.Flatten)
    add(nn.Linear, int(np.prod(shape)), CLASSES)
    return lambda: nn.Sequential(*(layer() for layer in layers)), image


@settings(max_examples=60, deadline=None)
@given(drawn=networks(), batch=st.integers(1, 40), seed=st.integers(0, 99))
def test_any_network_is_trained_as_torch_does_in_double_precision(
    drawn: Any, batch: int, seed: int
) -> None:
    build, shape = drawn
    model = stacked_of(build)
    steps = given_steps(model, ALGORITHMS["plain"], seed, shape=shape, batch=batch)
    steps = steps._replace(start_ND=steps.start_ND * 0.3)
    found = model.descend(steps)
    assert found is not None
    for client in range(len(steps.start_ND)):
        delta_D, loss = in_double(build, steps, client)
        np.testing.assert_allclose(found.delta_D[client], delta_D, atol=2e-4)
        assert found.loss[client] == pytest.approx(loss, rel=1e-4, abs=1e-5)


def test_the_comparison_would_see_a_lost_tap() -> None:
    build, shape = MODULES["cnn"]
    model = stacked_of(build)
    steps = given_steps(model, ALGORITHMS["plain"], 0, shape=shape)
    found = model.descend(steps)
    assert found is not None
    steps.start_ND[0, 0] += 0.1
    delta_D, _ = in_double(build, steps, 0)
    assert np.abs(found.delta_D[0] - delta_D).max() > 1e-3


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("batch", [1, 7, 16, 20, 33])
def test_a_client_does_not_depend_on_the_others(module: str, batch: int) -> None:
    build, shape = MODULES[module]
    model = stacked_of(build)
    steps = given_steps(model, ALGORITHMS["everything"], 3, shape=shape, batch=batch)
    steps.start_ND[0] = np.nan  # not even on one whose model is lost
    together = model.descend(steps)
    assert together is not None
    assert np.isnan(together.delta_D[0]).all()
    assert np.isfinite(together.delta_D[1:]).all()
    for n in (3, 1, 2):
        own = steps._replace(
            rows_NSB=steps.rows_NSB[n : n + 1],
            sizes_NS=steps.sizes_NS[n : n + 1],
            start_ND=steps.start_ND[n : n + 1],
        )
        alone = model.descend(own)
        assert alone is not None
        assert np.array_equal(alone.delta_D[0], together.delta_D[n])
        assert alone.loss[0] == together.loss[n]


def pooled() -> nn.Module:
    """Four inputs of a maximum, through weights of one."""
    return nn.Sequential(
        nn.Conv2d(1, 1, 1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1, 3)
    )


@pytest.mark.parametrize(
    "image",
    [
        [1, 1, 1, 1],
        [0, 2, 2, 1],
        [-1, -1, -2, -1],
        [1, np.nan, 2, 3],
        [np.nan, 1, np.nan, 2],
        [-np.inf] * 4,
        [np.inf, 1, np.inf, 2],
    ],
)
def test_the_maximum_is_the_one_that_torch_takes(image: list[float]) -> None:
    # The gradient of the kernel is the maximum; of the bias, one place's.
    model = stacked_of(pooled)
    steps = given_steps(model, ALGORITHMS["plain"], 0, shape=(1, 2, 2))
    x = np.tile(np.array(image, np.float32).reshape(1, 1, 2, 2), (20, 1, 1, 1))
    steps = steps._replace(x=x)
    found = model.descend(steps)
    assert found is not None
    expected, _ = in_double(pooled, steps, 0)
    np.testing.assert_allclose(found.delta_D[0], expected, rtol=1e-4, atol=1e-5)


def overlapping() -> nn.Module:
    """A convolution says by its own gradient which places were the largest."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=1, padding=1),
        nn.Flatten(),
        nn.Linear(32, 3),
    )


@settings(max_examples=30, deadline=None)
@given(drawn=networks(), batch=st.integers(1, 40), seed=st.integers(0, 99))
def test_registers_of_any_width_come_to_the_same_bits(
    drawn: Any, batch: int, seed: int
) -> None:
    build, shape = drawn
    model, found = stacked_of(build), []
    steps = given_steps(model, ALGORITHMS["momentum"], seed, shape=shape, batch=batch)
    for lanes in 4, 8, 16:
        with patch.object(loop, "descend", partial(loop.descend, lanes=lanes)):
            try:
                taken = model.descend(steps)
            except ValueError:  # this processor has none
                continue
        assert taken is not None
        found.append((taken.delta_D.tobytes(), taken.loss.tobytes()))
    assert found
    assert len(set(found)) == 1


def test_of_equal_ones_the_first_has_the_gradient() -> None:
    model = stacked_of(overlapping)
    steps = given_steps(model, ALGORITHMS["plain"], 5, shape=(1, 5, 5))
    steps.start_ND[:, :10] = 1  # so the sums are whole numbers, many of them equal
    steps = steps._replace(
        x=np.round(steps.x), sizes_NS=np.minimum(steps.sizes_NS, [9, 0, 0])
    )
    found = model.descend(steps)
    assert found is not None
    for client in range(4):
        delta_D, _ = in_double(overlapping, steps, client)
        np.testing.assert_allclose(found.delta_D[client], delta_D, atol=1e-5)


def test_numbers_that_are_none_pass_relu() -> None:
    build, shape = MODULES["cnn"]
    model = stacked_of(build)
    steps = given_steps(model, ALGORITHMS["plain"], 0, shape=shape)
    steps.start_ND[1, -1] = np.nan  # a bias of the scores
    steps.start_ND[2, 0] = np.nan  # a kernel
    found = model.descend(steps)
    assert found is not None
    assert np.isnan(found.loss[1:3]).all()
    assert np.isnan(found.delta_D[1:3]).any(axis=1).all()
    assert np.isfinite(found.delta_D[[0, 3]]).all()


def test_what_was_kept_is_not_written_to() -> None:
    config, model = ALGORITHMS["kept momentum"], stacked_of(mlp)
    steps = given_steps(model, config, 0, second=True)
    kept_ND = steps.rule.velocity_D
    assert kept_ND is not None
    before_ND = kept_ND.copy()
    model.descend(steps)
    assert np.array_equal(kept_ND, before_ND)


def frozen() -> nn.Module:
    module = mlp()
    next(module.parameters()).requires_grad_(False)
    return module


def tied() -> nn.Module:
    one = nn.Linear(6, 6)
    return nn.Sequential(nn.Flatten(), one, nn.ReLU(), one, nn.ReLU(), nn.Linear(6, 3))


def one_relu() -> nn.Module:
    """That stands in two places."""
    relu = nn.ReLU()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(6, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 3)
    )


def sizes_in_lists() -> nn.Module:
    one: Any = [1, 1]
    two: Any = [2, 2]
    return nn.Sequential(
        nn.Conv2d(2, 3, 1),
        nn.MaxPool2d(two, stride=one, padding=one),
        nn.AdaptiveAvgPool2d(two),
        nn.Flatten(),
        nn.Linear(12, 3),
    )


def frozen_kernel() -> nn.Module:
    module = cnn()
    next(module.parameters()).requires_grad_(False)
    return module


def before(*layers: nn.Module) -> Callable[[], nn.Module]:
    """With a linear layer at the end."""
    return lambda: nn.Sequential(*layers, nn.Flatten(), nn.Linear(2, 3))


def other_weights() -> nn.Module:
    module = nn.Conv2d(2, 2, 3)
    module.weight = nn.Parameter(torch.zeros(2, 2, 2, 2))
    return before(module)()


OTHERS: dict[str, Any] = {
    "another activation": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    ),
    "ends with an activation": (lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU())),
    "ends with a convolution": lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten()),
    "frozen": frozen,
    "frozen kernel": frozen_kernel,
    "tied": tied,
    "dropout": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 3)),
    "too large": lambda: nn.Linear(2048, 1024),
    "flattens less": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(6, 3)),
    "groups": before(nn.Conv2d(2, 2, 3, groups=2)),
    "dilation": before(nn.Conv2d(2, 2, 2, dilation=2)),
    "another border": before(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")),
    "a border wider than the kernel": before(nn.Conv2d(2, 2, 1, padding=1)),
    "an uneven border": before(nn.Conv2d(2, 2, (2, 3), padding="same")),
    "three dimensions": before(nn.Conv3d(2, 2, 2)),
    "normalisation": before(nn.Conv2d(2, 2, 2), nn.GroupNorm(1, 2)),
    "maxima with dilation": before(nn.MaxPool2d(2, dilation=2)),
    "maxima of what is left": before(nn.MaxPool2d(2, ceil_mode=True)),
    "maxima of parts": before(nn.AdaptiveMaxPool2d(1)),
    "maxima with a wide border": before(nn.MaxPool2d(3, padding=2)),
    "means without a stride": before(nn.AvgPool2d(2, stride=0)),
    "weights of another shape": other_weights,
    "means with a border": before(nn.AvgPool2d(2, padding=1)),
    "means by another number": before(nn.AvgPool2d(2, divisor_override=3)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_modules_are_left_to_gradients(name: str) -> None:
    assert stacked_of(OTHERS[name])._compiled is None


@pytest.mark.parametrize(
    "loss", [nn.MSELoss(), nn.CrossEntropyLoss(label_smoothing=0.1)]
)
def test_other_losses_are_left_to_gradients(loss: Any) -> None:
    assert stacked_of(mlp, loss)._compiled is None


@pytest.mark.parametrize(
    ("build", "shape"), [(one_relu, (2, 3)), (sizes_in_lists, (2, 4, 4))]
)
def test_what_torch_allows_is_trained_as_torch_does(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    model = stacked_of(build)
    steps = given_steps(model, ALGORITHMS["plain"], 3, shape=shape)
    found = model.descend(steps)
    assert found is not None
    for client in range(4):
        delta_D, _ = in_double(build, steps, client)
        np.testing.assert_allclose(found.delta_D[client], delta_D, atol=1e-4)
    expected = by_gradients(model, steps)
    np.testing.assert_allclose(found.delta_D, expected.delta_D, rtol=1e-3, atol=1e-4)


def test_targets_between_the_places_of_numbers_are_left_to_gradients() -> None:
    model = stacked_of(mlp)
    steps = given_steps(model, ALGORITHMS["plain"], 0)
    y = np.frombuffer(b"\0" * 164, np.int64, 20, offset=4)
    assert not y.flags.aligned
    assert model.descend(steps._replace(y=y)) is None


def test_plain_layers_are_taken() -> None:
    for build in (
        mlp,
        cnn,
        signals,
        lambda: nn.Linear(6, 3),
        lambda: nn.Sequential(nn.Linear(6, 3, bias=False)),
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)),
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
        {"x": np.zeros(20, np.float32)},
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


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        ("cnn", (2, 6, 12)),
        ("cnn", (3, 6, 7)),
        ("cnn", (2, 6)),
        ("cnn", (2, 1, 1)),
        ("cnn", (2, 0, 7)),
        ("signals", (3, 9)),
        ("signals", (2, 9, 1)),
        ("signals", (2, 0)),
    ],
)
def test_images_of_other_sizes_are_left_to_gradients(
    module: str, shape: tuple[int, ...]
) -> None:
    build, own = MODULES[module]
    model = stacked_of(build)
    steps = given_steps(model, ALGORITHMS["plain"], 0, shape=own)
    x = np.zeros((20, *shape), np.float32)
    assert model.descend(steps._replace(x=x)) is None


def test_images_of_several_sizes_may_fit() -> None:
    model = stacked_of(signals)
    for shape in (2, 9), (2, 20), (2, 2):
        steps = given_steps(model, ALGORITHMS["plain"], 0, shape=shape)
        found = model.descend(steps)
        assert found is not None
        delta_D, _ = in_double(signals, steps, 0)
        np.testing.assert_allclose(found.delta_D[0], delta_D, atol=1e-4)


def test_activations_before_all_layers_are_left_to_gradients() -> None:
    model = stacked_of(lambda: nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(6, 3)))
    assert model.descend(given_steps(model, ALGORITHMS["plain"], 0)) is None


def test_tensors_are_taken_as_they_are() -> None:
    model = stacked_of(mlp)
    steps = given_steps(model, ALGORITHMS["plain"], 0)
    tensors = steps._replace(x=torch.tensor(steps.x), y=torch.tensor(steps.y))
    expected = model.descend(steps)
    assert expected is not None
    found = model.descend(tensors)
    assert found is not None
    assert np.array_equal(found.delta_D, expected.delta_D)
