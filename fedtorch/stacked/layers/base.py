"""A layer of many models: forward, and backward into the flat gradient."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from fedtorch.stacked.rows import Rows, Slot
from fedtorch.stacked.workspace import Workspace


class Bound(NamedTuple):
    """A layer for one stack and one shape of input, forward and backward.

    With a few small models, Python's own work takes most of the time: a bound layer has
    made all views of its parameters and buffers before.
    """

    forward: Callable[[torch.Tensor], torch.Tensor]
    backward: Callable[[torch.Tensor], Any]
    nbytes: int = 0  # that it keeps beyond two times its output


class Layer:
    """One layer of N models, each with its own parameters and its own batch.

    Tensors have the shape (N, B, ...). A bound layer's ``forward`` remembers what
    ``backward`` needs; ``backward`` writes the gradients of the parameters and returns
    that of the input, or None if it is not wanted. The next step uses the same buffers.
    """

    slots: tuple[Slot, ...] = ()
    fresh = False  # the output is a buffer of its own, which may be written over
    classes_first = False  # whether the memory of the output should be (N, O, B)

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @property
    def trained(self) -> bool:
        """Whether the layer has parameters to train."""
        return any(slot.trained for slot in self.slots)

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the layer to a stack and inputs of this shape.

        Args:
            rows: the models of the stack.
            shape: of the inputs, (N, B, ...).
            wanted: whether the gradient of the input is wanted.
        """
        raise NotImplementedError

    def following(self, before: "Layer") -> "Layer":
        """Returns the layer to use behind ``before`` in a sequence."""
        return self


Function = Callable[[torch.Tensor, Sequence[torch.Tensor | None]], torch.Tensor]


class Composed(Layer):
    """A layer made of stacked torch operations, with autograd inside.

    ``function(x, parameters)`` is given parameters of shape (N, *shape); a frozen one
    has N = 1, an absent one is None.
    """

    def __init__(
        self,
        workspace: Workspace,
        function: Function,
        slots: Sequence[Slot | None] = (),
    ) -> None:
        super().__init__(workspace)
        self._function = function
        self._given = tuple(slots)
        self.slots = tuple(slot for slot in slots if slot is not None)

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the function, whose graph is kept from forward to backward."""
        kept: list[torch.Tensor] = []  # input and output
        leaves: list[tuple[Slot, torch.Tensor]] = []

        def leaf_of(slot: Slot) -> torch.Tensor:
            leaves.append((slot, rows.leaf(slot)))
            return leaves[-1][1]

        def forward(x: torch.Tensor) -> torch.Tensor:
            leaves.clear()
            with torch.enable_grad():
                x = x.detach().requires_grad_(x.is_floating_point())
                y = self.apply(x, leaf_of)
            kept[:] = x, y
            return y.detach()

        def backward(gy: torch.Tensor) -> torch.Tensor | None:
            x, y = kept
            asked = [leaf for _, leaf in leaves]
            if wanted and x.requires_grad:
                asked.append(x)
            found: Sequence[torch.Tensor | None] = ()
            if asked:
                found = torch.autograd.grad(y, asked, gy, allow_unused=True)
            pairs = zip(asked, found, strict=True)
            full = [torch.zeros_like(a) if g is None else g for a, g in pairs]
            for (slot, _), gradient in zip(leaves, full, strict=False):
                rows.put(slot, gradient)
            gx = full[-1] if len(full) > len(leaves) else None
            kept.clear()
            leaves.clear()
            return gx

        return Bound(forward, backward)

    def apply(
        self, x: torch.Tensor, leaf_of: Callable[[Slot], torch.Tensor]
    ) -> torch.Tensor:
        """Calls the function with the parameters that ``leaf_of`` finds."""
        values: list[torch.Tensor | None] = []
        for slot in self._given:
            if slot is None:
                values.append(None)
            elif slot.shared is not None:
                values.append(slot.shared[None])
            else:
                values.append(leaf_of(slot))
        return self._function(x, values)
