"""A module whose parameters are views of one flat vector.

The vector and its gradient are NumPy arrays that share memory with the tensors, so
an optimiser step is one array operation and nothing is copied. Neither torch.optim
nor torch.func is imported: each brings torch._dynamo, 1.1 s and 70 MB.
"""

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.evaluation import MetricsOf, evaluation_batches, measured, named
from fedcore.metrics import Mean
from fedcore.model import Metrics, StackedModel
from fedcore.params import Rest
from fedcore.rng import Key
from fedcore.samples import Samples
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedtorch.layout import Buffers, layout
from fedtorch.modules import check_module
from fedtorch.raised import needing_batches
from fedtorch.tensors import CPU, across, join_tensors
from fedtorch.tensors import to_targets as to_targets
from fedtorch.tensors import to_tensor as to_tensor
from fedtorch.whole import WholeModel, flat_of

Loss = Callable[[Any, Any], torch.Tensor]
# Below so many values several threads cost more than they gain: on two cores a step of
# the digits network takes 2.5 times as long with them.
SMALL = 1 << 20


class FlatModule:
    """One ``nn.Module``, trained and evaluated through flat vectors.

    Vectors are NumPy's on every device. The weights, a batch, and the gradient cross to
    an accelerator and back once a step; on the CPU they share the module's memory.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        loss: Loss,
        metrics: MetricsOf,
        samples: Callable[[Any, str], Samples],
        device: torch.device = CPU,
        *,
        buffers: Buffers = None,
        local: Sequence[str] = (),
    ) -> None:
        self._make, self._device = build, device
        self._loss, self._metrics, self._samples = loss, metrics, samples
        # What is not trained is drawn alike everywhere, and in every run.
        module = check_module(self._drawn(Key.root(0)))
        self._layout = layout(module, buffers, local)
        self.advice = self._layout.advice
        self._whole = whole = WholeModel(module, self._layout, device)
        self._module, self.spec, self.local_L = module, whole.spec, whole.local_L
        self._w_D, self._g_D = whole.w_D, whole.g_D
        # What NumPy sees of both.
        self._w_here_D, self._g_here_D = shared(self._w_D), shared(self._g_D)
        self._w, self._g = self._w_here_D.numpy(), self._g_here_D.numpy()
        self._loss_there = moved(loss, device)
        if self.spec.dim < SMALL and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)

    def _build(self) -> nn.Module:
        with user_code("model"):
            return self._make()

    def _drawn(self, key: Key) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key.seed())
            return self._build().to(CPU)

    def initial(self, key: Key) -> Vector:
        """Returns the weights that the module's initialisation draws for a key."""
        return flat_of(self._drawn(key), self.spec)

    def rest(self) -> Rest:
        """Returns frozen weights, buffers, local tensors, and names of tied parameters.

        With the tensors of the spec, these are all that ``load_state_dict`` expects.
        """
        return self._whole.rest()

    def seed(self, key: Key) -> None:
        """Seeds dropout and the like for one task."""
        if self._device == CPU:
            torch.default_generator.manual_seed(key.seed())  # of the CPU alone
        else:
            torch.manual_seed(key.seed())

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the mean loss over a batch and its gradient.

        The gradient's array is valid until the next call.
        """
        self._whole.train()
        dim = self.spec.dim
        self._take(w_D, w_D[dim:] if self.local_L is not None else None)
        self._g_D.zero_()
        targets = across(to_targets(y), self._device)
        with needing_batches(self._module):
            outputs = self._module(self._there(x))
        loss = self._loss_there(outputs, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self._whole.take_buffers()
        if self._g_here_D is not self._g_D:
            self._g_here_D.copy_(self._g_D)
        return loss.item(), self._g

    def _take(self, w_D: Vector, local_L: Vector | None) -> None:
        """Copies these weights and buffers into the module."""
        dim = self.spec.dim
        np.copyto(self._w[:dim], w_D[:dim])  # companions may follow
        if local_L is not None:
            np.copyto(self._w[dim:], local_L)
        if self._w_here_D is not self._w_D:
            self._w_D.copy_(self._w_here_D)
        self._whole.load_buffers()

    def _there(self, data: Any) -> Any:
        """Returns a batch on the module's device."""
        return across(to_tensor(data), self._device)

    def stacked(self, device: str = "cpu") -> StackedModel:
        """Returns many such models as one, which computes their gradients at once.

        Raises:
            NotStackableError: it can be done neither layer by layer nor with
                ``torch.func.vmap``. The first gradient raises what only data shows.
        """
        from fedtorch.stacked import Stacked

        return Stacked(
            self._module,
            self.spec,
            self._loss,
            self.gradient,
            device,
            fixed=self._layout.fixed,
            local_L=self.local_L,
        )

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Returns the loss and the user's metrics over a whole data set."""
        self._module.eval()
        self._take(w_D, self.local_L if local_L is None else local_L)
        samples = self._samples(data, "the evaluation data")
        batches = map(samples.batch, evaluation_batches(len(samples)))
        outputs = (
            (across(self._module(self._there(x)), CPU), to_targets(y))
            for x, y in batches
        )
        metrics = {"loss": Mean(self._loss), **named(self._metrics)}
        with torch.no_grad():
            return measured(metrics, outputs, join_tensors), len(samples)


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor if it is on the CPU, else room for a copy of it there."""
    return tensor if tensor.device == CPU else torch.zeros(tensor.shape)


def moved(loss: Loss, device: torch.device) -> Loss:
    """Returns the loss with its weights on the device; a function has none."""
    if isinstance(loss, nn.Module) and device != CPU:
        return deepcopy(loss).to(device)
    return loss
