"""The mean losses of many models over their batches, and the outputs' gradients.

A known loss is computed for all samples at once, and padding has a weight of zero. Any
other function is given the samples of one model at a time, without padding.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from fedtorch.stacked.rows import Batch
from fedtorch.tensors import map_tensors

Found = tuple[Any, torch.Tensor]
"""The losses (N,), in NumPy or torch, and the gradient of the outputs (N, B, ...)."""


class Known(NamedTuple):
    """A function of ``torch.nn.functional``, and how it is called."""

    function: Callable[..., torch.Tensor]
    settings: Mapping[str, Any]
    of_classes: bool  # targets are indices of classes: there may be fewer of them

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__


_OF_CLASSES = (functional.cross_entropy, functional.nll_loss)
_MODULES: Mapping[type[nn.Module], tuple[Callable[..., Any], tuple[str, ...]]] = {
    nn.CrossEntropyLoss: (
        functional.cross_entropy,
        ("weight", "ignore_index", "label_smoothing"),
    ),
    nn.NLLLoss: (functional.nll_loss, ("weight", "ignore_index")),
    nn.MSELoss: (functional.mse_loss, ()),
    nn.L1Loss: (functional.l1_loss, ()),
    nn.SmoothL1Loss: (functional.smooth_l1_loss, ("beta",)),
    nn.HuberLoss: (functional.huber_loss, ("delta",)),
    nn.BCELoss: (functional.binary_cross_entropy, ("weight",)),
    nn.BCEWithLogitsLoss: (
        functional.binary_cross_entropy_with_logits,
        ("weight", "pos_weight"),
    ),
    nn.SoftMarginLoss: (functional.soft_margin_loss, ()),
}
_FUNCTIONS = [function for function, _ in _MODULES.values()]


def recognise(loss: Any) -> Known | None:
    """Returns the loss if it is a mean and its type or function is known, else None."""
    if loss in _FUNCTIONS:
        return recognise_call(loss, {})
    found = _MODULES.get(type(loss))
    if found is None or loss.reduction != "mean" or loss._forward_hooks:
        return None
    function, names = found
    return recognise_call(function, {name: getattr(loss, name) for name in names})


def recognise_call(function: Any, settings: Mapping[str, Any]) -> Known | None:
    """Returns the loss of a call with these keyword arguments if known, else None."""
    rest = {k: v for k, v in settings.items() if v is not None}
    if rest.pop("reduction", "mean") != "mean" or function not in _FUNCTIONS:
        return None
    of_classes, weight = function in _OF_CLASSES, rest.get("weight")
    if {"size_average", "reduce"} & set(rest):
        return None
    if not of_classes and weight is not None and weight.dim() > 1:
        return None  # a weight for each sample of the batch
    return Known(function, rest, of_classes)


class Loss:
    """The mean losses of a stack and their gradients."""

    words: str

    def __call__(self, out: torch.Tensor, y: Any, batch: Batch) -> Found:
        """Returns the losses (N,) and the gradient of the outputs (N, B, ...)."""
        raise NotImplementedError

    def bind(self, out: torch.Tensor) -> Callable[[Any, Batch], Found]:
        """Returns the loss as a function of targets; outputs are always ``out``."""
        return partial(self, out)


Prepare = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def _as_they_are(
    out: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return out, y


class Weighed(Loss):
    """A known loss, with autograd through the loss alone.

    ``prepare`` reshapes outputs and targets for the loss, and keeps the values' order.
    """

    def __init__(self, loss: Known, prepare: Prepare = _as_they_are) -> None:
        self._loss, self._prepare = loss, prepare
        self.words = loss.name

    def __call__(self, out: torch.Tensor, y: Any, batch: Batch) -> Found:
        """Weighs each value by whether its sample counts."""
        n, b = batch.count, batch.width
        if batch.ragged:
            counts = batch.counts()
            y = torch.where(counts.view(n, b, *(1,) * (y.dim() - 2)), y, 0)
        with torch.enable_grad():
            leaf = out.detach().requires_grad_()
            scores, targets = self._prepare(leaf.flatten(0, 1), y.flatten(0, 1))
            settings = dict(self._loss.settings)
            if not self._loss.of_classes and scores.shape != targets.shape:
                raise ValueError(
                    f"outputs {tuple(scores.shape)} and targets "
                    f"{tuple(targets.shape)} differ in shape"
                )
            values = self._loss.function(scores, targets, **settings, reduction="none")
            if values.numel() % (n * b):
                raise ValueError("the loss does not have a value for each sample")
            each = values.view(n, b, -1)
            weights = self._weights(scores, targets, each)
            if batch.ragged:
                weights = weights * counts.unsqueeze(2)
                each = each * counts.unsqueeze(2)
            loss_N = each.sum((1, 2)) / weights.sum((1, 2))
            (g,) = torch.autograd.grad(loss_N.sum(), leaf)
        return loss_N.detach(), g

    def _weights(
        self, scores: torch.Tensor, targets: torch.Tensor, each: torch.Tensor
    ) -> torch.Tensor:
        """Returns the weight of each value in the mean, as torch counts it."""
        if not self._loss.of_classes or targets.is_floating_point():
            return torch.ones_like(each)
        settings = self._loss.settings
        ignored = targets == settings.get("ignore_index", -100)
        weight = settings.get("weight")
        if weight is None:
            found = (~ignored).to(each.dtype)
        else:
            found = weight[targets.masked_fill(ignored, 0)].masked_fill(ignored, 0)
        counted: torch.Tensor = found.view(each.shape)
        return counted


class RowByRow(Loss):
    """Any other function, called for one model at a time; it sees no padding."""

    words = "the loss function model by model"

    def __init__(self, function: Callable[[Any, Any], torch.Tensor]) -> None:
        self._function = function

    def __call__(self, out: torch.Tensor, y: Any, batch: Batch) -> Found:
        """Differentiates the function for each model by itself."""
        g = torch.zeros(out.shape, device=out.device)
        losses = []
        for row, size in enumerate(batch.sizes_N.tolist()):
            with torch.enable_grad():
                leaf = out[row, :size].detach().requires_grad_()
                target = map_tensors(y, operator.itemgetter((row, slice(size))))
                loss = self._function(leaf, target)
                (g[row, :size],) = torch.autograd.grad(loss, leaf)
            losses.append(loss.detach())
        return torch.stack(losses), g
