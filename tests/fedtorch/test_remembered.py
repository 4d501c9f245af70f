"""What results depend on is refused, whatever holds it; caches and logs are legal."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

from fedcore.errors import ModelError
from fedcore.rng import Key
from fedtorch.flat import FlatModule
from tests.fedtorch.modules import X, Y, workload

COUNT = 0
TABLE: dict[int, torch.Tensor] = {}


class Book:
    """A loss that is a method, and grows with what it writes into."""

    def __init__(self, keeps: Any) -> None:
        self.keeps = keeps

    def loss(self, output: Any, target: Any) -> Any:
        return self.written(output, target) * (1 + self.amount())

    def amount(self) -> float:
        """How much is written."""
        match self.keeps:
            case dict():
                return float(self.keeps["sum"])
            case list() | set():
                return float(len(self.keeps))
            case torch.Tensor() | int():
                return float(torch.as_tensor(self.keeps).sum())
            case _:
                return 0.0

    def written(self, output: Any, target: Any) -> Any:
        """The loss of the outputs alone; writes as well."""
        value = functional.cross_entropy(output, target)
        match self.keeps:
            case dict():
                self.keeps["last"] = value.item()
                self.keeps["sum"] = self.keeps.get("sum", 0) + value.item()
            case list():
                self.keeps.append(1)
            case set():
                self.keeps.add(len(self.keeps))
            case torch.Tensor():
                self.keeps += 1
            case int():
                self.keeps += 1
        return value


def steps(model: Any, count: int = 9) -> list[float]:
    """Takes steps along the gradient; returns their losses."""
    w_D, losses = model.initial(Key.root(0)), []
    model.seed(Key.root(1))
    for _ in range(count):
        loss, g_D = model.gradient(w_D, X, Y)
        w_D = w_D - np.float32(0.1) * g_D
        losses.append(loss)
    return losses


@pytest.mark.parametrize("keeps", [{}, [], set(), torch.zeros(2), 7])
def test_what_a_loss_remembers_is_named(keeps: Any) -> None:
    model = workload(loss=Book(keeps).loss).flat()
    with pytest.raises(ModelError, match="the loss changes its 'keeps' in training"):
        model.gradient(model.initial(Key.root(0)), X, Y)


def test_a_loss_that_counts_is_refused_at_each_step() -> None:
    model = workload(loss=Book(7).loss).flat()
    for _ in range(3):
        with pytest.raises(ModelError, match="the loss changes its 'keeps'"):
            model.gradient(model.initial(Key.root(0)), X, Y)


@pytest.mark.parametrize("keeps", [None, "a word", (1, 2.5), object()])
def test_what_stays_as_it_is_is_no_matter(keeps: Any) -> None:
    model = workload(loss=Book(keeps).loss).flat()
    w_D = model.initial(Key.root(0))
    assert model.gradient(w_D, X, Y)[0] == model.gradient(w_D, X, Y)[0]


@pytest.mark.parametrize("keeps", [{}, [], set(), torch.zeros(2), 7])
def test_what_is_written_down_alone_is_legal(keeps: Any) -> None:
    steps(workload(loss=Book(keeps).written).flat())


def test_a_part_of_a_loss_is_named_with_its_place() -> None:
    class Part(nn.Module):
        calls: int = 0

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part: Any = Part()

        def forward(self, output: Any, target: Any) -> Any:
            self.part.calls += 1
            return functional.cross_entropy(output, target) * self.part.calls

    model = workload(loss=Whole()).flat()
    with pytest.raises(ModelError, match=r"the loss changes its 'part\.calls'"):
        model.gradient(model.initial(Key.root(0)), X, Y)


def in_a_global(output: Any, target: Any) -> Any:
    global COUNT
    COUNT += 1
    return functional.cross_entropy(output, target) * COUNT


def in_an_attribute(output: Any, target: Any) -> Any:
    own: Any = in_an_attribute
    own.calls = getattr(own, "calls", 0) + 1
    return functional.cross_entropy(output, target) * own.calls


def in_a_default(output: Any, target: Any, seen: list[int] = []) -> Any:  # noqa: B006
    seen.append(1)
    return functional.cross_entropy(output, target) * len(seen)


class InItsClass:
    calls = 0

    def __call__(self, output: Any, target: Any) -> Any:
        InItsClass.calls += 1
        return functional.cross_entropy(output, target) * InItsClass.calls


class InASlot:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, output: Any, target: Any) -> Any:
        self.calls += 1
        return functional.cross_entropy(output, target) * self.calls


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (in_a_global, "COUNT"),
        (in_an_attribute, "calls"),
        (in_a_default, "default 0"),
        (InItsClass(), "calls"),
        (InASlot(), "calls"),
    ],
)
def test_a_loss_is_refused_wherever_it_remembers(loss: Any, name: str) -> None:
    with pytest.raises(ModelError, match=f"the loss changes its '{name}' in training"):
        steps(workload(loss=loss).flat())


def test_a_state_that_changes_at_a_late_step_is_refused() -> None:
    small = steps(workload().flat(), 12)[-1]

    class Late:
        """Falls when the loss is small."""

        factor = 1.0

        def __call__(self, output: Any, target: Any) -> Any:
            loss = functional.cross_entropy(output, target)
            if loss.item() < small:
                self.factor *= 0.5
            return loss * self.factor

    with pytest.raises(ModelError, match="the loss changes its 'factor'"):
        steps(workload(loss=Late()).flat(), 64)


class Net(nn.Module):
    """A layer, and what a test adds to it."""

    def __init__(self, change: Callable[[Any, Any], Any], **held: Any) -> None:
        super().__init__()
        width = X.shape[1]
        self.layer = nn.Linear(width, 3)
        self.change = [change]
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, x: Any) -> Any:
        return self.change[0](self, self.layer(x))


def lazily(self: Any, y: Any) -> Any:
    if self.table is None:
        self.table = torch.ones(3)
    return y * self.table


def by_length(self: Any, y: Any) -> Any:
    if len(y) not in self.table:
        self.table[len(y)] = torch.ones(len(y), 1)
    return y * self.table[len(y)]


def in_a_global_table(self: Any, y: Any) -> Any:
    if len(y) not in TABLE:
        TABLE[len(y)] = torch.ones(len(y), 1)
    return y * TABLE[len(y)]


def shown(self: Any, y: Any) -> Any:
    self.outputs = y
    self.norm = float(y.detach().norm())
    return y


def dropped(self: Any, y: Any) -> Any:
    self.mask = torch.rand(y.shape) + np.random.rand() + random.random()  # noqa: NPY002, TID251
    return y * self.mask


def in_a_buffer(self: Any, y: Any) -> Any:
    if not hasattr(self, "table"):
        self.register_buffer("table", torch.ones(3), persistent=False)
    return y * self.table


def longest(self: Any, y: Any) -> Any:
    self.longest = max(self.longest, len(y))
    return y


def buffers_of(module: nn.Module) -> dict[str, Any]:
    """Averages the vectors of a spectral norm, which change in training."""
    return {name: "average" for name, _ in module.named_buffers()}


def normed(norm: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(norm(nn.Linear(X.shape[1], 3)))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Net(lazily, table=None),
        lambda: Net(by_length, table={}),
        lambda: Net(in_a_global_table),
        lambda: Net(shown),
        lambda: Net(dropped),
        lambda: Net(in_a_buffer),
        lambda: Net(longest, longest=0),
        normed(parametrizations.spectral_norm),
        normed(parametrizations.weight_norm),
    ],
)
def test_what_no_result_depends_on_is_legal(build: Callable[[], Any]) -> None:
    model = workload(model=build, buffers=buffers_of(build())).flat()
    for rows in (slice(None), slice(0, 3), slice(0, 4), slice(0, 2)):
        w_D = model.initial(Key.root(0))
        model.gradient(w_D, X[rows], Y[rows])
        model.evaluate(w_D, (X, Y))
    steps(model)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
@pytest.mark.parametrize("norm", [weight_norm, spectral_norm])
def test_a_weight_that_is_computed_anew_is_legal(norm: Callable[..., Any]) -> None:
    class Own(nn.Sequential):
        """A module of the user's, so that it is looked at."""

    def build() -> nn.Module:
        return Own(norm(nn.Linear(X.shape[1], 3)))

    steps(workload(model=build, buffers=buffers_of(build())).flat())


def test_layers_in_a_plain_list_are_no_part_of_the_model() -> None:
    def forgotten(self: Any, y: Any) -> Any:
        return self.more[0](y)

    def build() -> nn.Module:
        return Net(forgotten, more=[nn.Linear(3, 3)])

    with pytest.raises(ModelError, match=r"the model has a parameter 'more\[0\]\.w"):
        steps(workload(model=build).flat())


def test_a_look_changes_no_draw_and_no_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gradients() -> list[Any]:
        model = workload(model=lambda: Net(dropped)).flat()
        w_D = model.initial(Key.root(0))
        model.seed(Key.root(2))
        return [model.gradient(w_D, X, Y)[1].copy() for _ in range(5)]

    with_looks = gradients()
    monkeypatch.setattr(FlatModule, "_begin", lambda self, always=False: None)
    np.testing.assert_array_equal(with_looks, gradients())
    np.testing.assert_array_equal(with_looks, gradients())
