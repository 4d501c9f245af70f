"""Stacked gradients are those of the models one by one, whatever the layer."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedcore.rng import Key
from fedtorch.compiled import loop
from fedtorch.stacked import Stacked
from fedtorch.stacked.rows import Batch, Rows
from fedtorch.stacked.vmapped import Vmapped
from tests.fedtorch.stacks import (
    BY_LAYER,
    CASES,
    CLASSES,
    GRAPH,
    VMAP,
    assert_close,
    batches,
    flat,
    models,
    one_by_one,
)

FEW = settings(max_examples=4, deadline=None)


@st.composite
def stacks(draw: Any, most: int = 4) -> tuple[list[int], int, int]:
    """Sizes of batches, their width, and a seed."""
    width = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(1, width), min_size=1, max_size=most))
    return sizes, width, draw(st.integers(0, 99))


@pytest.mark.parametrize("name", CASES)
@FEW
@given(stack=stacks())
def test_a_stack_equals_its_models_one_by_one(name: str, stack: Any) -> None:
    case, (sizes, width, seed) = CASES[name], stack
    model = flat(case.build)
    x, y = batches(case, len(sizes), width, seed)
    w_ND = models(model, len(sizes), seed)
    stacked = model.stack()
    found = stacked.gradient(w_ND, x, y, np.array(sizes))
    assert_close(found, one_by_one(model, w_ND, x, y, sizes))
    assert stacked.how.startswith(case.way)


LOSSES: dict[str, tuple[Any, str]] = {
    "module": (nn.CrossEntropyLoss(), "classes"),
    "function": (functional.cross_entropy, "classes"),
    "lambda": (lambda out, y: functional.cross_entropy(out, y), "classes"),
    "inside": (lambda out, y: nn.CrossEntropyLoss()(out, y), "classes"),
    "smoothed": (nn.CrossEntropyLoss(label_smoothing=0.2), "classes"),
    "weighted": (nn.CrossEntropyLoss(weight=torch.linspace(0.2, 2, 5)), "classes"),
    "ignoring": (nn.CrossEntropyLoss(ignore_index=3), "classes"),
    "nll": (lambda out, y: functional.nll_loss(out.log_softmax(1), y), "classes"),
    "shares": (nn.CrossEntropyLoss(), "shares"),
    "mse": (nn.MSELoss(), "values"),
    "l1": (nn.L1Loss(), "values"),
    "huber": (nn.HuberLoss(), "values"),
    "bce": (nn.BCEWithLogitsLoss(pos_weight=torch.linspace(0.5, 2, 5)), "shares"),
    "reshaped": (
        lambda out, y: functional.mse_loss(out.view(-1), y.view(-1)),
        "values",
    ),
    "unknown": (nn.MultiMarginLoss(), "classes"),
    "summed": (nn.MSELoss(reduction="sum"), "values"),
    "branching": (
        lambda out, y: out.square().mean() if out.sum() > 0 else out.abs().mean(),
        "values",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
@FEW
@given(stack=stacks())
def test_every_loss_is_the_mean_over_the_samples_that_count(
    name: str, stack: Any
) -> None:
    loss, kind = LOSSES[name]
    sizes, width, seed = stack
    model = flat(CASES["mlp"].build, loss)
    x, y = batches(CASES["mlp"], len(sizes), width, seed)
    y[:, 0] = torch.where(y[:, 0] == 3, 0, y[:, 0])  # one that is not ignored
    if kind == "values":
        y = torch.randn(
            *y.shape, CLASSES, generator=torch.Generator().manual_seed(seed)
        )
    elif kind == "shares":
        y = functional.one_hot(y, CLASSES) * 0.7 + 0.06
    w_ND = models(model, len(sizes), seed)
    stacked = model.stack()
    found = stacked.gradient(w_ND, x, y, np.array(sizes))
    assert_close(found, one_by_one(model, w_ND, x, y, sizes))
    assert stacked.how.startswith(BY_LAYER)


@pytest.mark.parametrize("name", ["mlp", "conv_pool", "residual", "mixes"])
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MultiMarginLoss()])
def test_what_padding_holds_has_no_effect(name: str, loss: Any) -> None:
    case, sizes = CASES[name], np.array([2, 5, 1])
    model = flat(case.build, loss)
    x, y = batches(case, 3, 5, seed=1)
    w_ND = models(model, 3)
    stacked = model.stack()
    clean = [part.copy() for part in stacked.gradient(w_ND, x, y, sizes)]
    for row, size in enumerate(sizes):
        x[row, size:] *= -1e4
        y[row, size:] = 77
    for part, expected in zip(stacked.gradient(w_ND, x, y, sizes), clean, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-7)


def test_without_the_sizes_padding_would_count() -> None:
    """A negative control: the comparison sees padding that is not left out."""
    case, sizes = CASES["mlp"], [2, 5, 1]
    model = flat(case.build)
    x, y = batches(case, 3, 5, seed=1)
    w_ND = models(model, 3)
    found = model.stack().gradient(w_ND, x, y, np.array([5, 5, 5]))
    with pytest.raises(AssertionError):
        assert_close(found, one_by_one(model, w_ND, x, y, sizes))


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.way != VMAP]
)
def test_both_ways_agree(name: str) -> None:
    case, sizes = CASES[name], np.array([3, 4, 1])
    model = flat(case.build)
    x, y = batches(case, 3, 4, seed=2)
    w_ND = models(model, 3)
    found = model.stack().gradient(w_ND, x, y, sizes)
    vmapped = Vmapped(
        case.build().train(), model.spec, nn.CrossEntropyLoss(), "it is asked to"
    )
    if name == "frozen":  # its frozen values are drawn anew
        return
    rows = Rows(torch.from_numpy(w_ND), torch.empty(w_ND.shape))
    loss_N = vmapped.step(rows, x, y, Batch(sizes, 4, torch.device("cpu")))
    assert_close(found, (loss_N.numpy(), rows.g_ND.numpy()))


@pytest.mark.parametrize("name", ["mlp", "residual", "prelu", "conv1d"])
def test_stacks_of_any_size_follow_one_another(name: str) -> None:
    """More models and fewer, wider batches and narrower, in one model."""
    case = CASES[name]
    model = flat(case.build)
    stacked = model.stack()
    for n, b in ((2, 3), (5, 3), (1, 1), (3, 6), (5, 3), (4, 2)):
        x, y = batches(case, n, b, seed=n)
        sizes = np.arange(n) % b + 1
        w_ND = models(model, n, seed=b)
        found = stacked.gradient(w_ND, x, y, sizes)
        assert_close(found, one_by_one(model, w_ND, x, y, sizes.tolist()))


@pytest.mark.parametrize("name", ["mlp", "conv2d", "own"])
def test_groups_of_models_give_what_all_together_give(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    model = flat(case.build)
    x, y = batches(case, 7, 3, seed=3)
    w_ND, sizes = models(model, 7), np.array([3, 2, 3, 1, 3, 2, 3])
    together = model.stack().gradient(w_ND, x, y, sizes)
    monkeypatch.setattr("fedtorch.stacked.model.GROUP", {"cpu": 1})
    assert_close(model.stack().gradient(w_ND, x, y, sizes), together)


class WithDropout(nn.Module):
    """Dropout in a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 200), nn.Linear(200, CLASSES)

    def forward(self, x: Any) -> Any:
        x = functional.dropout(self.first(x), training=self.training)
        return self.last(x)


@pytest.mark.parametrize(
    ("layers", "way"),
    [((), BY_LAYER), ((nn.PReLU(),), VMAP), (None, GRAPH)],
)
def test_dropout_follows_from_the_key_and_differs_between_models(
    layers: Any, way: str
) -> None:
    def build() -> nn.Module:
        if layers is None:
            return WithDropout()
        inner = (nn.Dropout(0.5), *layers, nn.Linear(200, CLASSES))
        return nn.Sequential(nn.Linear(4, 200), *inner)

    model = flat(build)
    x, y = batches(CASES["mlp"], 1, 4, seed=0)
    x, y = x.repeat(2, 1, 1), y.repeat(2, 1)
    w_ND = models(model, 1).repeat(2, axis=0)
    stacked, again = model.stack(), model.stack()
    found = []
    for one, key in ((stacked, 1), (stacked, 1), (stacked, 2), (again, 1)):
        one.seed(Key.root(key))
        found.append(one.gradient(w_ND, x, y, np.array([4, 4]))[1].copy())
    first, same, other, fresh = found
    assert first.tobytes() == same.tobytes() == fresh.tobytes()
    assert first.tobytes() != other.tobytes()
    assert not np.allclose(first[0], first[1])
    assert stacked.how.startswith(way)


def test_it_is_a_stacked_model_in_words() -> None:
    stacked = flat(CASES["mlp"].build).stack()
    assert isinstance(stacked, Stacked)
    words = "stacked by layer (2 Linear, 1 ReLU), cross_entropy by hand"
    if loop.available:
        words += ", all steps of a client in a compiled loop"
    assert stacked.how == words
