"""A traced module with stacked parameters, under autograd.

The samples of all models are one batch of N * B: what treats each sample by itself
needs no change. Layers and functions with parameters are given those of each model.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

from fedcore.params import TensorSpec
from fedtorch.stacked.graphs.actions import Action, Step
from fedtorch.stacked.graphs.planner import Planner
from fedtorch.stacked.graphs.trace import trace
from fedtorch.stacked.layers.registry import Maker
from fedtorch.stacked.losses import Loss
from fedtorch.stacked.rows import Batch, Rows
from fedtorch.tensors import first, map_tensors


class Graph:
    """The nodes of a traced module, and what each does for many models."""

    def __init__(
        self,
        actions: Sequence[tuple[fx.Node, Action]],
        output: fx.Node,
        words: str,
        loss: Loss,
        to_clear: Sequence[TensorSpec],
    ) -> None:
        self._actions, self._output = tuple(actions), output
        self._loss, self._to_clear = loss, tuple(to_clear)
        self.words = f"stacked by layer along its graph ({words}), {loss.words}"
        self.overhead = 8
        self.per_sample: dict[torch.Size, float] = {}

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """Computes the losses (N,), and writes the gradients into ``rows``."""
        step = Step(rows, batch)
        values: dict[fx.Node, Any] = {}
        with torch.enable_grad():
            for node, action in self._actions:
                if node.op == "placeholder":
                    values[node] = map_tensors(x, lambda part: part.flatten(0, 1))
                else:
                    values[node] = action(step, values)
            out = values[self._output]
        if not isinstance(out, torch.Tensor) or out.shape[0] != step.n * step.b:
            raise ValueError("its output is not one tensor of all samples")
        with torch.no_grad():
            loss_N, g = self._loss(step.apart(out.detach()), y, batch)
            if self._to_clear:
                rows.clear(self._to_clear)
        torch.autograd.backward(out, g.flatten(0, 1))
        for slot, leaf in step.leaves:
            if leaf.grad is not None:
                rows.put(slot, leaf.grad)
            elif slot.spec is not None and not slot.several:
                rows.clear((slot.spec,))
        for layer in step.waiting:  # the loss does not depend on their output
            rows.clear(
                [slot.spec for slot in layer.slots if slot.spec and not slot.several]
            )
        self.per_sample[first(x).shape[2:]] = 2 * step.nbytes / (step.n * step.b)
        return loss_N


def graph(module: nn.Module, maker: Maker, loss: Loss) -> Graph:
    """Makes the module's graph for many models at once.

    Raises:
        NotStackableError: it cannot be traced, or a node of its graph is not known.
    """
    followed, root = trace(module)
    planner = Planner(followed, root, maker)
    counts = Counter(
        type(root.get_submodule(str(node.target))).__name__
        for node in followed.nodes
        if node.op == "call_module"
    )
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    actions, output = planner.plan()
    return Graph(actions, output, words, loss, maker.slots.to_clear())
