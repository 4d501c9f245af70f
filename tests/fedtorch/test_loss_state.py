"""A loss that remembers something is refused at its first step, and at later ones."""

from typing import Any

import pytest
import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.rng import Key
from tests.fedtorch.modules import X, Y, workload


class Book:
    """A loss that is a method, and what it writes into."""

    def __init__(self, keeps: Any) -> None:
        self.keeps = keeps

    def loss(self, output: Any, target: Any) -> Any:
        value = nn.functional.cross_entropy(output, target)
        match self.keeps:
            case dict():
                self.keeps["last"] = value.item()
            case list():
                self.keeps.append(1)
            case set():
                self.keeps.add(1)
            case torch.Tensor():
                self.keeps += 1
            case int():
                self.keeps += 1
        return value


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


def test_a_part_of_a_loss_is_named_with_its_place() -> None:
    class Part(nn.Module):
        calls: int = 0

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part: Any = Part()

        def forward(self, output: Any, target: Any) -> Any:
            self.part.calls += 1
            return nn.functional.cross_entropy(output, target)

    model = workload(loss=Whole()).flat()
    with pytest.raises(ModelError, match=r"the loss changes its 'part\.calls'"):
        model.gradient(model.initial(Key.root(0)), X, Y)
