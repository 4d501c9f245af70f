"""A copy of a module that computes in float64 on the CPU."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.typing import Array
from fedtorch.tensors import CPU, map_tensors, to_targets, to_tensor


class InDouble:
    """One module in float64; each of its losses draws the same random numbers.

    Args:
        module: is copied.
        loss: ``loss(output, target)``; a module is copied, too.
        names: the parameters that are trained, in the order of the flat vector.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Any, Any], torch.Tensor],
        names: Sequence[str],
    ) -> None:
        self._module = deepcopy(module).to(CPU, torch.float64)
        known = dict(self._module.named_parameters())
        self._parameters = [known[name] for name in names]
        self._loss = loss
        if isinstance(loss, nn.Module):
            self._loss = deepcopy(loss).to(CPU, torch.float64)

    def parameters(self) -> list[torch.Tensor]:
        """Returns the trained parameters, in the order of the flat vector."""
        return [*self._parameters]

    def loss(self, w_D: Array, x: Any, y: Any) -> torch.Tensor:
        """Returns the mean loss over a batch in training, with the graph behind it."""
        w = torch.tensor(w_D, dtype=torch.float64)
        parts = torch.split(w, [each.numel() for each in self._parameters])
        with torch.no_grad():
            for parameter, part in zip(self._parameters, parts, strict=True):
                parameter.copy_(part.view(parameter.shape))
        inputs, targets = (
            map_tensors(to_tensor(x), _double),
            map_tensors(to_targets(y), _double),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self._loss(self._module(inputs), targets)

    def gradient(self, w_D: Array, x: Any, y: Any) -> tuple[float, Array]:
        """Returns the mean loss over a batch and its gradient."""
        loss = self.loss(w_D, x, y)
        parts = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
        g_D = np.concatenate([part.numpy().ravel() for part in parts])
        return loss.item(), g_D


def _double(tensor: torch.Tensor) -> torch.Tensor:
    there = tensor.to(CPU)
    return there.double() if there.is_floating_point() else there
