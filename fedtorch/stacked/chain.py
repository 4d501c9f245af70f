"""A plain sequence of layers, forward and backward without autograd."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from fedcore.errors import NotStackableError
from fedcore.params import TensorSpec
from fedtorch.stacked.cross_entropy import CrossEntropy
from fedtorch.stacked.layers.base import Layer
from fedtorch.stacked.layers.registry import Maker, kind_of, refusal
from fedtorch.stacked.losses import Found, Loss
from fedtorch.stacked.rows import Batch, Rows


class _Steps(NamedTuple):
    """The functions that a step calls, for one stack and one shape of batches."""

    forward: tuple[Callable[[torch.Tensor], torch.Tensor], ...]
    loss: Callable[[torch.Tensor], Callable[[Any, Batch], Found]]
    backward: tuple[Callable[[torch.Tensor], Any], ...]


class Chain:
    """The layers of an ``nn.Sequential``, one after the other."""

    def __init__(
        self,
        layers: Sequence[Layer],
        words: str,
        loss: Loss,
        to_clear: Sequence[TensorSpec],
    ) -> None:
        self._layers = tuple(layers)
        self._loss, self._to_clear = loss, tuple(to_clear)
        self._first = next(at for at, layer in enumerate(layers) if layer.trained)
        self.words = f"stacked by layer ({words}), {loss.words}"
        self.overhead = 1
        self.per_sample: dict[torch.Size, float] = {}

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """Computes the losses (N,), and writes the gradients into ``rows``."""
        with torch.no_grad():
            key = (self, x.shape)
            steps = rows.remembered.get(key)
            if steps is None:
                steps = rows.remember(key, self._bind(rows, x))
            for forward in steps.forward:
                x = forward(x)
            loss_N, g = steps.loss(x)(y, batch)
            if self._to_clear:
                rows.clear(self._to_clear)
            for backward in steps.backward:
                g = backward(g)
        return loss_N

    def _bind(self, rows: Rows, x: torch.Tensor) -> _Steps:
        """Runs forward once, to know the shapes; draws nothing from the generator."""
        samples, shape = x.shape[:2].numel(), x.shape[2:]
        bound, nbytes = [], 0
        devices = [x.device] if x.device.type != "cpu" else []
        with torch.random.fork_rng(devices):
            for at, layer in enumerate(self._layers):
                bound.append(layer.bind(rows, x.shape, wanted=at > self._first))
                x = bound[-1].forward(x)
                nbytes += 2 * x.nbytes + bound[-1].nbytes
        self.per_sample[shape] = nbytes / samples
        last = self._loss.bind
        loss = _always(last(x)) if self._layers[-1].fresh else last
        return _Steps(
            tuple(one.forward for one in bound),
            loss,
            tuple(one.backward for one in reversed(bound[self._first :])),
        )


def _always(
    loss: Callable[[Any, Batch], Found],
) -> Callable[[torch.Tensor], Callable[[Any, Batch], Found]]:
    """Returns the same loss for every output, which always lies in the same memory."""
    return lambda out: loss


def flatten(module: nn.Module, name: str = "") -> list[tuple[str, nn.Module]] | None:
    """Returns the layers of a sequence of sequences; None for any other module."""
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        return None
    if type(module) is not nn.Sequential:
        return [(name, module)] if refusal(module) is None else None
    layers: list[tuple[str, nn.Module]] = []
    for key, child in module._modules.items():  # a repeated layer is there twice
        if child is None:
            continue
        inner = flatten(child, f"{name}.{key}" if name else key)
        if inner is None:
            return None
        layers += inner
    return layers


def chain(layers: Sequence[tuple[str, nn.Module]], maker: Maker, loss: Loss) -> Chain:
    """Makes the layers of a sequence for many models at once.

    Raises:
        NotStackableError: the output of a layer is not one tensor.
    """
    for name, layer in layers:
        if kind_of(layer).returns_tuple:
            raise NotStackableError(f"the output of layer {name!r} is not one tensor")
        maker.count(layer)
    made: list[Layer] = []
    for _, layer in layers:
        one = maker.make(layer)
        made.append(one.following(made[-1]) if made else one)
    made[-1].classes_first = isinstance(loss, CrossEntropy)
    counts = Counter(type(layer).__name__ for _, layer in layers)
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Chain(made, words, loss, maker.slots.to_clear())
