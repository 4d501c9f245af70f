"""A module whose parameters are views of one flat vector.

The vector and its gradient are NumPy arrays that share memory with the tensors, so
an optimiser step is one array operation and nothing is copied. Neither torch.optim
nor torch.func is imported: each brings torch._dynamo, 1.1 s and 70 MB.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.evaluation import MetricsOf, measure, name_metrics
from fedcore.memory import LARGE, give_back
from fedcore.metrics import Mean
from fedcore.model import Metrics, StackedModel, Weighted
from fedcore.params import Rest
from fedcore.remembered import Look, Restore, global_draws
from fedcore.rng import Key, seed_global
from fedcore.samples import Samples, evaluation_data
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedtorch.in_double import InDouble
from fedtorch.layout import Buffers, layout
from fedtorch.modules import check_module, limit_threads
from fedtorch.raised import needing_batches
from fedtorch.remembered import draws_on, memory_of
from fedtorch.tensors import CPU, across, join_tensors, map_tensors
from fedtorch.tensors import to_targets as to_targets
from fedtorch.tensors import to_tensor as to_tensor
from fedtorch.whole import Beside, WholeModel, flat_of, to_training

PART = 4 << 20  # values that are subtracted at a time
Loss = Callable[[Any, Any], torch.Tensor]
Write = Callable[[Any], str]


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
        beside: Beside | None = None,
        write: Write | None = None,
    ) -> None:
        self._make, self._device = build, device
        self._loss, self._metrics, self._samples = loss, metrics, samples
        self._write = write
        # What is not trained is drawn alike everywhere, and in every run.
        module = check_module(self._draw(Key.root(0)))
        self._layout = layout(module, buffers, local)
        self.advice = self._layout.advice
        self._whole = whole = WholeModel(module, self._layout, device, beside)
        self._module, self.spec, self.local_L = module, whole.spec, whole.local_L
        self._w_D, self._g_D = whole.w_D, whole.g_D
        self._w_here_D, self._g_here_D = whole.w_room.tensor_D, whole.g_room.tensor_D
        self._w, self._g = self._w_here_D.numpy(), self._g_here_D.numpy()
        self.room_D: Vector | None = self._w
        self.free()
        self._loss_there = move_loss(loss, device)
        self._memory = memory_of(module, self._loss_there)
        limit_threads(module)

    def _build(self) -> nn.Module:
        with user_code("model"):
            return self._make()

    def _draw(self, key: Key) -> nn.Module:
        restore = global_draws()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key.seed())
            seed_global(key)
            try:
                return self._build().to(CPU)
            finally:
                restore()

    def initial(self, key: Key) -> Vector:
        """Returns the weights that the module's initialisation draws for a key."""
        flat_D = flat_of(self._draw(key), self.spec)
        give_back(flat_D.nbytes)
        return flat_D

    def difference(self, start_D: Vector, end_D: Vector) -> Vector:
        """Returns start - end; gives back the memory of the weights as it goes."""
        self._whole.g_room.free()
        if end_D is not self._w or end_D.nbytes < LARGE:
            return start_D - end_D
        delta_D = np.empty_like(start_D)
        for at in range(0, len(delta_D), PART):
            part = slice(at, at + PART)
            np.subtract(start_D[part], end_D[part], out=delta_D[part])
            self._whole.w_room.free(4 * at, 4 * PART)
        return delta_D

    def free(self) -> None:
        """Gives back the memory of the weights and the gradient, which are lost.

        The next call of any other method brings its own weights.
        """
        self._whole.w_room.free()
        self._whole.g_room.free()
        give_back(self._w.nbytes)  # what computed them

    def rest(self) -> Rest:
        """Returns frozen weights, buffers, local tensors, and names of tied parameters.

        With the tensors of the spec, these are all that ``load_state_dict`` expects.
        """
        return self._whole.rest()

    def seed(self, key: Key) -> None:
        """Seeds dropout, and all global generators, for one task."""
        seed_global(key)
        if self._device == CPU:
            torch.default_generator.manual_seed(key.seed())  # of the CPU alone
        else:
            torch.manual_seed(key.seed())

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the mean loss over a batch and its gradient.

        The gradient's array is valid until the next call.

        Raises:
            ModelError: a buffer changes, or the model or the loss remembers something
                else, of which nobody else would know.
        """
        return self._gradient_of(w_D, x, y, self._begin())

    def look_at(self, w_D: Vector, x: Any, y: Any) -> None:
        """Computes a gradient, and looks whether the user's objects remember it.

        Raises:
            ModelError: they do.
        """
        self._gradient_of(w_D, x, y, self._begin(always=True))

    def _gradient_of(
        self, w_D: Vector, x: Any, y: Any, look: Look | None
    ) -> tuple[float, Vector]:
        loss = self.loss(w_D, x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        value = loss.item()
        self._end(look, value, x, y)
        return value, self._gradient_here()

    def _begin(self, *, always: bool = False) -> Look | None:
        """Takes note of what user code holds, before some of the steps."""
        look = self._memory.begin(self._draws, always=always)
        if look is not None:
            self._whole.check_again()
        return look

    def _draws(self) -> Restore:
        return draws_on(self._device)

    def _end(self, look: Look | None, value: float, x: Any, y: Any) -> None:
        """Checks, after a step that is looked at, what has changed."""
        if look is None:
            return

        def again(objects: Any, is_other: bool) -> list[float]:
            module, loss = objects
            to_training(module, self._layout.fixed)
            self._whole.load_buffers(module)
            inputs, targets = self._there(x), across(to_targets(y), self._device)
            if is_other:
                inputs, targets = (
                    map_tensors(inputs, other),
                    map_tensors(targets, other),
                )
            found: torch.Tensor = loss(self._outputs(inputs, module), targets)
            return [found.item()]

        look.end([value], again)

    def loss(self, w_D: Vector, x: Any, y: Any) -> torch.Tensor:
        """Returns the mean loss over a batch in training, with the graph behind it."""
        output, targets = self._forward(w_D, x, y)
        return self._loss_there(output, targets)

    def parameters(self) -> list[torch.Tensor]:
        """Returns the trained parameters, in the order of the flat vector."""
        known = dict(self._module.named_parameters())
        return [known[name] for name in self._names()]

    def _names(self) -> list[str]:
        known = dict(self._module.named_parameters())
        return [spec.name for spec in self.spec.tensors if spec.name in known]

    def in_double(self) -> InDouble:
        """Returns a copy of the module in training, which computes in float64."""
        self._whole.train()
        return InDouble(self._module, self._loss, self._names())

    def weighted_gradient(
        self, w_D: Vector, x: Any, y: Any, weights_B: Vector
    ) -> Weighted:
        """Returns the loss and the gradient of a batch whose samples have weights.

        The norms are those of the gradient of each sample's loss at the module's
        output: of cross-entropy ‖softmax - onehot‖. They cost no gradient more.

        Raises:
            ModelError: the output is not one tensor with a row for each sample.
        """
        look = self._begin()
        output, targets = self._forward(w_D, x, y)
        count = len(weights_B)
        if not isinstance(output, torch.Tensor) or output.shape[:1] != (count,):
            raise ModelError(
                "priority estimate takes the gradients at the module's output, and "
                "that is not one tensor with a row for each sample; use priority: "
                "gradient_norm"
            )
        loss = self._loss_there(output, targets)
        (g_B,) = torch.autograd.grad(loss, output)
        weights = torch.from_numpy(weights_B).to(self._device)
        output.backward(  # type: ignore[no-untyped-call]
            g_B * weights.reshape(-1, *[1] * (g_B.dim() - 1))
        )
        norms = torch.linalg.vector_norm(g_B.reshape(count, -1), dim=1) * count
        mean = loss.item()
        self._end(look, mean, x, y)
        if (weights_B != 1).any():
            mean = self._mean_loss(output.detach(), targets, weights_B)
        return Weighted(mean, self._gradient_here(), norms.cpu().numpy())

    def _mean_loss(
        self, output: torch.Tensor, targets: Any, weights_B: Vector
    ) -> float:
        """Returns Σ weight·loss / B; a loss function gives means alone."""
        total = 0.0
        for place, weight in enumerate(weights_B.tolist()):
            row = slice(place, place + 1)
            own = self._loss_there(output[row], map_tensors(targets, itemgetter(row)))
            total += weight * own.item()
        return total / len(weights_B)

    def _forward(self, w_D: Vector, x: Any, y: Any) -> tuple[Any, Any]:
        """Returns outputs and targets of a batch in training, gradients at zero."""
        self._whole.train()
        dim = self.spec.dim
        self._take(w_D, w_D[dim:] if self.local_L is not None else None)
        self._g_D.zero_()
        targets = across(to_targets(y), self._device)
        with needing_batches(self._module):
            return self._outputs(self._there(x), self._module), targets

    def _outputs(self, x: Any, module: nn.Module) -> Any:
        """Returns what a module makes of a batch that lies on its device."""
        return module(x)

    def _gradient_here(self) -> Vector:
        """Returns the gradient after ``backward``, valid until the next call."""
        self._whole.take_buffers()
        if self._g_here_D is not self._g_D:
            self._g_here_D.copy_(self._g_D)
        return self._g

    def _take(self, w_D: Vector, local_L: Vector | None) -> None:
        """Copies these weights and buffers into the module."""
        dim = self.spec.dim
        if w_D.ctypes.data != self._w.ctypes.data:  # they do not train in here
            np.copyto(self._w[:dim], w_D[:dim])  # companions may follow
            if local_L is not None:
                np.copyto(self._w[dim:], local_L)
        if self._w_here_D is not self._w_D:
            self._w_D.copy_(self._w_here_D)
        self._whole.load_buffers()

    def _there(self, data: Any) -> Any:
        """Returns a batch on the module's device."""
        return across(to_tensor(data), self._device)

    def stack(self, device: str = "cpu") -> StackedModel:
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
            look=self.look_at if self._memory.is_needed else None,
            fixed=self._layout.fixed,
            local_L=self.local_L,
        )

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Returns the loss and the user's metrics over a whole data set."""
        samples = self._samples(data, "the evaluation data")
        metrics = {"loss": Mean(self._loss), **name_metrics(self._metrics)}
        with self._evaluating(w_D, local_L) as module, torch.no_grad():
            outputs = (
                (across(self._outputs(self._there(x), module), CPU), to_targets(y))
                for x, y in evaluation_data(samples)
            )
            found = measure(metrics, outputs, join_tensors), len(samples)
        self.free()
        return found

    @contextmanager
    def _evaluating(
        self, w_D: Vector, local_L: Vector | None = None
    ) -> Iterator[nn.Module]:
        """Lends the module with these values, or a copy of it, for an evaluation."""
        self._module.eval()
        self._take(w_D, self.local_L if local_L is None else local_L)
        with self._memory.evaluating() as module:
            if module is not self._module:
                self._whole.load_buffers(module.eval())
            yield module

    def write(self, w_D: Vector) -> str:
        """Returns what the user's function has the module write; empty without one."""
        if self._write is None:
            return ""
        self._module.eval()
        self._take(w_D, self.local_L)
        with torch.no_grad():
            return str(self._write(self._module))


def other(values: torch.Tensor) -> torch.Tensor:
    """Returns other values of the same shape and kind, in their range if whole."""
    if not isinstance(values, torch.Tensor) or not values.dim():
        return values
    return values * 0.5 + 1 if values.is_floating_point() else values.flip(0)


def move_loss(loss: Loss, device: torch.device) -> Loss:
    """Returns the loss with its weights on the device; a function has none."""
    if isinstance(loss, nn.Module) and device != CPU:
        return deepcopy(loss).to(device)
    return loss
