"""Stacked gradients: what they take and give, and what they refuse."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.errors import NotStackableError
from tests.fedtorch.stacks import (
    CASES,
    CLASSES,
    assert_close,
    batches,
    flat,
    models,
    one_by_one,
)

SIZES = np.array([3, 1])


def step(build: Any, loss: Any = None, x: Any = None) -> str:
    """One gradient of two models; the way that was taken."""
    model = flat(build, loss)
    drawn, y = batches(CASES["mlp"], 2, 3, seed=0)
    x = drawn if x is None else x
    w_ND = models(model, 2)
    stacked = model.stack()
    found = stacked.gradient(w_ND, x, y, SIZES)
    assert_close(found, one_by_one(model, w_ND, x, y, SIZES.tolist()))
    return stacked.how


def test_gradients_come_in_the_library_of_the_models_and_in_the_same_buffer() -> None:
    model = flat(CASES["mlp"].build)
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    w_ND = models(model, 2)
    stacked = model.stack()
    loss_N, g_ND = stacked.gradient(w_ND, x.numpy(), y.numpy(), SIZES)
    assert isinstance(loss_N, np.ndarray)
    assert loss_N.dtype == g_ND.dtype == np.float32
    before = g_ND.copy()
    _, again_ND = stacked.gradient(w_ND, x.numpy(), y.numpy(), SIZES)
    assert np.shares_memory(again_ND, g_ND)
    tensors = stacked.gradient(torch.from_numpy(w_ND), x, y, SIZES)
    assert all(isinstance(part, torch.Tensor) for part in tensors)
    np.testing.assert_array_equal(tensors[1].numpy(), before)


@pytest.mark.parametrize("name", ["mlp", "conv2d", "residual", "mixes"])
def test_what_is_given_is_left_untouched(name: str) -> None:
    model = flat(CASES[name].build)
    x, y = (part.numpy() for part in batches(CASES[name], 2, 3, seed=0))
    w_ND = models(model, 2)
    before = [part.tobytes() for part in (w_ND, x, y)]
    w_ND.setflags(write=False)
    model.stack().gradient(w_ND, x, y, SIZES)
    assert [part.tobytes() for part in (w_ND, x, y)] == before


def test_one_model_may_be_given_for_all() -> None:
    model = flat(CASES["mlp"].build)
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    w_ND = np.broadcast_to(models(model, 1)[0], (2, model.spec.dim))
    found = model.stack().gradient(w_ND, x, y, SIZES)
    assert_close(found, one_by_one(model, w_ND, x, y, SIZES.tolist()))


def test_a_relu_at_the_start_does_not_write_over_the_input() -> None:
    model = flat(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, CLASSES)))
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    before = x.clone()
    model.stack().gradient(models(model, 2), x, y, SIZES)
    assert torch.equal(x, before)


def test_inputs_may_be_a_dict_or_a_tuple() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return torch.cat([self.a(x["a"]), self.b(x["b"][0])], 1)

    x, _ = batches(CASES["mlp"], 2, 3, seed=0)
    how = step(Both, x={"a": x, "b": (x + 1, x)})
    assert how.startswith("stacked by layer along its graph (2 Linear)")


def test_a_target_below_zero_or_too_large_is_the_error_of_torch() -> None:
    model = flat(CASES["mlp"].build)
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    y[0, 1] = CLASSES
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        model.stack().gradient(models(model, 2), x, y, SIZES)


def test_the_smallest_probabilities_have_a_loss() -> None:
    model = flat(lambda: nn.Linear(4, CLASSES))
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    w_ND = models(model, 2) * 300
    found = model.stack().gradient(w_ND, x, y, SIZES)
    assert found[0].max() > 100
    assert_close(found, one_by_one(model, w_ND, x, y, SIZES.tolist()))


def test_sizes_must_fit_the_batches() -> None:
    model = flat(CASES["mlp"].build)
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    with pytest.raises(ValueError, match="sizes from 0 to 4, expected 1 to 3"):
        model.stack().gradient(models(model, 2), x, y, np.array([0, 4]))


class Branches(nn.Module):
    """Looks at values."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(x if x.sum() > 0 else -x)


class Holder(nn.Module):
    """Holds something that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, CLASSES)
        self.lock = threading.Lock()

    def forward(self, x: Any) -> Any:
        return self.last(x)


REFUSALS = {
    "branches": (
        Branches,
        "module Branches cannot be stacked by torch.func.vmap (it calls .item() or "
        "branches on values); its clients are computed one by one",
    ),
    "inner": (
        lambda: nn.Sequential(nn.Linear(4, 4), Branches()),
        "layer '1' (Branches) cannot be stacked by torch.func.vmap (it calls .item() "
        "or branches on values); its clients are computed one by one",
    ),
    "script": (
        lambda: nn.Sequential(torch.jit.script(nn.Linear(4, CLASSES))),
        "layer '0' is compiled by torch.jit; give the module that it was compiled "
        "from, or compute its clients one by one",
    ),
    "holder": (
        Holder,
        "the module cannot be copied (cannot pickle '_thread.lock' object); compute "
        "its clients one by one",
    ),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_one_clear_sentence(name: str) -> None:
    build, sentence = REFUSALS[name]
    with pytest.raises(NotStackableError) as refused:
        step(build)
    assert str(refused.value) == sentence


class Noisy(nn.Module):
    """Draws at random by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(x) + 0 * torch.rand(1)


class BatchFirst(nn.Module):
    """A recurrent layer with time first."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.rnn(x[:, None])[0][:, 0]


def hooked() -> nn.Module:
    """A layer with a hook."""
    layer = nn.Linear(4, CLASSES)
    layer.register_forward_hook(lambda module, x, y: y * 2)
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda: nn.Sequential(nn.Linear(4, CLASSES), nn.PReLU()),
            "layer '1' (PReLU) is not among the layers that are stacked",
        ),
        (
            lambda: nn.Sequential(nn.Linear(4, CLASSES), nn.Softmax(0)),
            "layer '1' (Softmax) has dim=0, which may be that of the batch",
        ),
        (CASES["mixes"].build, "mean() works along the axis of the batch"),
        (
            CASES["counts"].build,
            "truediv() is given a size, which may be that of the batch",
        ),
        (Noisy, "it draws random numbers of its own"),
        (BatchFirst, "layer 'rnn' (RNN) is stacked only with batch_first=True"),
        (hooked, "layer '0' has hooks"),
    ],
)
def test_the_log_says_why_vmap_is_used(build: Any, reason: str) -> None:
    assert step(build).startswith(f"torch.func.vmap, since {reason}")


def test_a_graph_that_would_be_wrong_is_found_out() -> None:
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, CLASSES)

        def forward(self, x: Any) -> Any:
            # A graph is traced without a tensor.
            return self.last(x) * (1 if isinstance(x, torch.Tensor) else 2)

    model = flat(Asks)
    x, y = batches(CASES["mlp"], 2, 3, seed=0)
    w_ND = models(model, 2)
    stacked = model.stack()
    found = stacked.gradient(w_ND, x, y, SIZES)
    assert_close(found, one_by_one(model, w_ND, x, y, SIZES.tolist()))
    assert stacked.how == (
        "torch.func.vmap, since layer by layer failed: its graph has other gradients"
    )


def test_the_users_own_error_is_not_taken_for_a_refusal() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        step(lambda: nn.Sequential(nn.Linear(3, CLASSES), nn.ReLU()))


_STEP = """
import sys
import numpy as np
from tests.fedtorch.stacks import CASES, batches, flat, models
for name in {names}:
    model = flat(CASES[name].build)
    x, y = batches(CASES[name], 2, 3, seed=0)
    model.stack().gradient(models(model, 2), x, y, np.array([3, 1]))
print([name for name in sys.modules if name.startswith("torch._dynamo")][:3])
"""


def test_layers_are_stacked_without_dynamo() -> None:
    names = ["mlp", "conv_pool", "residual", "own"]
    done = subprocess.run(
        [sys.executable, "-c", _STEP.format(names=names)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
