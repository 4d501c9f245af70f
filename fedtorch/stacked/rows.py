"""The parameters of many models, their gradients, and memory that is used again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from fedcore.params import ParamSpec, TensorSpec

MOST_VIEWS = 256  # of one buffer, remembered: batches differ in size


class Block(NamedTuple):
    """One piece of memory as a tensor, and as what matrix products are fastest on.

    On a CPU that is a NumPy array: its ``matmul`` takes a third of the time of
    ``torch.bmm`` for the small matrices of a stack. Elsewhere it is the tensor.
    """

    tensor: torch.Tensor
    matrix: Any


class Workspace:
    """Buffers by name, each as large as it ever had to be."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.products = products(device)
        self._buffers: dict[object, torch.Tensor] = {}
        self._views: dict[object, dict[tuple[int, ...], Block]] = {}

    def take(self, name: object, shape: tuple[int, ...]) -> Block:
        """A buffer of this shape; it holds what was left in it, at first zeros."""
        views = self._views.get(name)
        if views is not None:
            block = views.get(shape)
            if block is not None:
                return block
        return self._view(name, shape)

    def like(self, name: object, tensor: torch.Tensor) -> torch.Tensor:
        """A buffer whose values lie as those of a tensor without gaps do."""
        flat = self.take(name, (tensor.numel(),)).tensor
        return flat.as_strided(tensor.shape, tensor.stride())

    def _view(self, name: object, shape: tuple[int, ...]) -> Block:
        size = int(np.prod(shape))
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size:
            buffer = torch.zeros(size, device=self.device)
            self._buffers[name] = buffer
            self._views[name] = {}
        views = self._views[name]
        if len(views) >= MOST_VIEWS:
            views.clear()
        tensor = buffer[:size].view(shape)
        views[shape] = Block(tensor, self.products.matrix(tensor))
        return views[shape]


class Products(NamedTuple):
    """Matrix products of stacks, on one device; see :class:`Block`."""

    matrix: Callable[[torch.Tensor], Any]
    """The tensor as the products take it, in the same memory."""
    multiply: Callable[..., Any]
    """``multiply(left, right, out=...)``: one product for each model."""


def products(device: torch.device) -> Products:
    """The fastest products on a device."""
    if device.type == "cpu":
        return Products(torch.Tensor.numpy, np.matmul)
    return Products(_itself, torch.bmm)


def copier(into: torch.Tensor, source: torch.Tensor) -> Callable[[], None]:
    """Copies from one place to another, as often as it is called.

    On a CPU, neighbouring values that both have in a row travel as one item: NumPy
    then takes half the time of ``Tensor.copy_`` for the patches of an image.
    """
    if into.device.type != "cpu":
        return lambda: (into.copy_(source), None)[1]
    run, axes = 1, into.dim()
    while axes and into.stride(axes - 1) == source.stride(axes - 1) == run:
        axes -= 1
        run *= into.shape[axes]
    if run == 1:
        return partial(np.copyto, into.numpy(), source.numpy())
    return partial(np.copyto, _items(into, axes, run), _items(source, axes, run))


def _items(tensor: torch.Tensor, axes: int, run: int) -> Any:
    """The first axes of a tensor, each element with the ``run`` values behind it."""
    size = tensor.element_size()
    storage = tensor.untyped_storage()
    whole = tensor.as_strided((storage.nbytes() // size,), (1,), 0)
    return np.ndarray(
        tuple(tensor.shape[:axes]),
        f"V{run * size}",
        whole.numpy(),
        tensor.storage_offset() * size,
        tuple(stride * size for stride in tensor.stride()[:axes]),
    )


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class Slot(NamedTuple):
    """Where a layer's parameter comes from: its place in the flat vector, or shared.

    ``shared`` is a frozen parameter, one for all models. ``several`` says that more
    than one place in the model uses the parameter, so that its gradients add up.
    """

    spec: TensorSpec | None
    shared: torch.Tensor | None = None
    several: bool = False

    @property
    def trained(self) -> bool:
        """Whether each model has its own values, which are trained."""
        return self.spec is not None


class Rows:
    """The parameters of N models and the gradients that are being computed."""

    def __init__(self, w_ND: torch.Tensor, g_ND: torch.Tensor) -> None:
        self.w_ND, self.g_ND = w_ND, g_ND
        self.count = w_ND.shape[0]
        self._matrix = products(w_ND.device).matrix
        self.w = self._matrix(w_ND)
        self.remembered: dict[object, Any] = {}
        self._weights: dict[int, Block] = {}
        self._gradients: dict[int, Block] = {}

    def remember(self, key: object, views: Any) -> Any:
        """Keeps what a layer made for this stack, to find it in ``remembered``."""
        if len(self.remembered) >= MOST_VIEWS:
            self.remembered.clear()
        self.remembered[key] = views
        return views

    def weight(self, spec: TensorSpec) -> Block:
        """A trained parameter, (N, *shape)."""
        block = self._weights.get(spec.offset)
        if block is None:
            block = self._weights[spec.offset] = self._view(self.w_ND, spec)
        return block

    def gradient(self, spec: TensorSpec) -> Block:
        """The place of a parameter's gradients, (N, *shape)."""
        block = self._gradients.get(spec.offset)
        if block is None:
            block = self._gradients[spec.offset] = self._view(self.g_ND, spec)
        return block

    def _view(self, flat_ND: torch.Tensor, spec: TensorSpec) -> Block:
        part = flat_ND[:, spec.slice].view(self.count, *spec.shape)
        return Block(part, self._matrix(part))

    def put(self, slot: Slot, value: torch.Tensor) -> None:
        """Writes the gradient of a parameter, or adds it where several places do."""
        if slot.spec is None:
            return
        into = self.gradient(slot.spec).tensor
        if slot.several:
            into.add_(value)
        else:
            into.copy_(value)

    def clear(self, specs: Sequence[TensorSpec]) -> None:
        """Sets the gradients of these parameters to zero."""
        for spec in specs:
            self.gradient(spec).tensor.zero_()


class Slots:
    """Finds the parameters of a module in the flat vector, and counts their uses."""

    def __init__(self, spec: ParamSpec, module: torch.nn.Module) -> None:
        named = {tensor.name: tensor for tensor in spec.tensors}
        self._specs = {
            id(parameter): named[name]
            for name, parameter in module.named_parameters()
            if name in named
        }
        self._uses: dict[int, int] = {}
        self._all = spec.tensors

    def count(self, parameter: torch.Tensor) -> None:
        """Counts one more use of a parameter."""
        self._uses[id(parameter)] = self._uses.get(id(parameter), 0) + 1

    @overload
    def of(self, parameter: torch.Tensor) -> Slot: ...
    @overload
    def of(self, parameter: None) -> None: ...
    def of(self, parameter: torch.Tensor | None) -> Slot | None:
        """Where a parameter comes from; all uses must have been counted before."""
        if parameter is None:
            return None
        found = self._specs.get(id(parameter))
        if found is None:
            return Slot(None, parameter.detach())
        return Slot(found, None, self._uses.get(id(parameter), 0) > 1)

    def to_clear(self) -> list[TensorSpec]:
        """Parameters not used exactly once: each step sets their gradients to zero."""
        once = {
            self._specs[key].offset
            for key, uses in self._uses.items()
            if uses == 1 and key in self._specs
        }
        return [tensor for tensor in self._all if tensor.offset not in once]
