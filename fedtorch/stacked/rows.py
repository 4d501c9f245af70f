"""The models of a stack: their parameters, their gradients and their batches."""

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from fedcore.params import ParamSpec, TensorSpec
from fedcore.typing import Indices
from fedtorch.stacked.workspace import MOST_VIEWS, Block, products


class Slot(NamedTuple):
    """The place of a layer's parameter: in the flat vector, or shared.

    ``shared`` is a frozen parameter, one for all models. ``several`` says that more
    than one layer uses the parameter, so that its gradients add up.
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

    def leaf(self, slot: Slot) -> torch.Tensor:
        """Returns a trained parameter, (N, *shape), that autograd tracks."""
        assert slot.spec is not None
        return self.weight(slot.spec).tensor.detach().requires_grad_()

    def remember(self, key: object, views: Any) -> Any:
        """Keeps in ``remembered`` what a layer made for this stack."""
        if len(self.remembered) >= MOST_VIEWS:
            self.remembered.clear()
        self.remembered[key] = views
        return views

    def weight(self, spec: TensorSpec) -> Block:
        """Returns a trained parameter, (N, *shape)."""
        block = self._weights.get(spec.offset)
        if block is None:
            block = self._weights[spec.offset] = self._view(self.w_ND, spec)
        return block

    def gradient(self, spec: TensorSpec) -> Block:
        """Returns the place of a parameter's gradients, (N, *shape)."""
        block = self._gradients.get(spec.offset)
        if block is None:
            block = self._gradients[spec.offset] = self._view(self.g_ND, spec)
        return block

    def _view(self, flat_ND: torch.Tensor, spec: TensorSpec) -> Block:
        part = flat_ND[:, spec.slice].view(self.count, *spec.shape)
        return Block(part, self._matrix(part))

    def put(self, slot: Slot, value: torch.Tensor) -> None:
        """Writes the gradient of a parameter, or adds it if several layers write it."""
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
        """Returns where a parameter is; all uses must have been counted before."""
        if parameter is None:
            return None
        found = self._specs.get(id(parameter))
        if found is None:
            return Slot(None, parameter.detach())
        return Slot(found, None, self._uses.get(id(parameter), 0) > 1)

    def to_clear(self) -> list[TensorSpec]:
        """Returns parameters not used exactly once: steps clear their gradients."""
        once = {
            self._specs[key].offset
            for key, uses in self._uses.items()
            if uses == 1 and key in self._specs
        }
        return [tensor for tensor in self._all if tensor.offset not in once]


class Batch:
    """N batches of B rows, of which the first ``sizes_N[i]`` count."""

    def __init__(self, sizes_N: Indices, width: int, device: torch.device) -> None:
        self.sizes_N, self.width, self.device = sizes_N, width, device
        self.count = len(sizes_N)
        sizes = sizes_N.tolist()
        self.ragged = min(sizes) < width
        if min(sizes) < 1 or max(sizes) > width:
            raise ValueError(
                f"sizes from {min(sizes)} to {max(sizes)}, expected 1 to {width}"
            )
        self._counts_NB: Any = None

    def part(self, rows: slice) -> "Batch":
        """Returns the batches of some of the models."""
        if rows.start == 0 and rows.stop >= self.count:
            return self
        return Batch(self.sizes_N[rows], self.width, self.device)

    def valid(self) -> Any:
        """Returns whether each row counts, (N, B), in NumPy."""
        if self._counts_NB is None:
            self._counts_NB = np.arange(self.width) < self.sizes_N[:, None]
        return self._counts_NB

    def counts(self) -> torch.Tensor:
        """Returns whether each row counts, (N, B), on the device."""
        return torch.from_numpy(self.valid()).to(self.device)

    def weights(self) -> Any:
        """Returns one over the size for rows that count, else 0, in NumPy."""
        return np.divide(self.valid(), self.sizes_N[:, None], dtype=np.float32)
