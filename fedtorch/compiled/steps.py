"""Finds out whether the compiled loop can train a network, and calls it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from fedcore.arrays import as_numpy
from fedcore.clients import Descent, Taken
from fedcore.model import Steps
from fedcore.params import ParamSpec
from fedtorch.compiled import loop
from fedtorch.compiled.loop import Compiled, Layer, Offsets, Shape

MOST_VALUES = 1 << 21  # no cache holds larger models: libraries are faster at them


class CompiledSteps:
    """Takes the steps of a plain sequence of layers under cross-entropy."""

    def __init__(self, plan: Sequence[Compiled]) -> None:
        self._plan = plan
        self._networks: dict[Shape, Sequence[Layer] | None] = {}

    def descend(self, steps: Steps) -> Taken | None:
        """Takes all steps; returns None if the loop cannot take data of this form."""
        x, y = _inputs(steps.x), _targets(steps.y)
        start_ND = _in_one_piece(steps.start_ND)
        if x is None or y is None or start_ND is None:
            return None
        layers = self._network(x.shape[1:])
        if layers is None:
            return None
        rule = _in_place(steps.rule)
        samples = loop.Samples(x, y, steps.rows_NSB, steps.sizes_NS)
        delta_ND = np.empty((len(steps.sizes_NS), start_ND.shape[1]), np.float32)
        losses_N = loop.descend(
            layers, rule, samples, start_ND, delta_ND, frozen=steps.frozen
        )
        return None if losses_N is None else Taken(delta_ND, losses_N, rule)

    def _network(self, shape: Shape) -> Sequence[Layer] | None:
        """Returns the loop's layers for samples of this shape, or None."""
        if shape not in self._networks:
            self._networks[shape] = _network(self._plan, shape)
        return self._networks[shape]


def compile_steps(
    layers: Sequence[tuple[str, nn.Module]],
    spec: ParamSpec,
    describe: Callable[[nn.Module, Offsets], Compiled | None],
) -> CompiledSteps | None:
    """Returns the compiled loop for a sequence of layers under cross-entropy, or None.

    The loop must know every layer, the last layer must be linear, and each parameter
    must be trained and belong to exactly one layer.

    Args:
        layers: by name, in their order.
        spec: where their parameters lie in the flat vector.
        describe: describes a layer to the loop; None: the loop does not know it.
    """
    if (
        not loop.available
        or spec.dim > MOST_VALUES
        or not 1 <= len(layers) <= loop.MOST_LAYERS
        or type(layers[-1][1]) is not nn.Linear
    ):
        return None
    begins = {tensor.name: tensor.offset for tensor in spec.tensors}
    plan = list[Compiled]()
    for name, layer in layers:
        at = dict[str, int]()
        for part, _ in layer.named_parameters():
            offset = begins.pop(f"{name}.{part}" if name else part, None)
            if offset is None:
                return None
            at[part] = offset
        add = describe(layer, at)
        if add is None:
            return None
        plan.append(add)
    return None if begins else CompiledSteps(plan)


def _network(plan: Sequence[Compiled], shape: Shape) -> list[Layer] | None:
    layers: list[Layer] = []
    for add in plan:
        found = add(layers, shape)
        if found is None:
            return None
        shape = found
    return layers


def _inputs(x: Any) -> Any:
    """Returns the inputs if they are float32 (n, ...), else None."""
    if isinstance(x, (dict, tuple)):
        return None
    x = as_numpy(x)
    return x if _plain(x) and x.ndim > 1 else None


def _targets(y: Any) -> Any:
    """Returns the targets if they are classes, int64 (n,), else None."""
    if isinstance(y, (dict, tuple)):
        return None
    y = as_numpy(y)
    return y if _plain(y, np.int64) and y.ndim == 1 else None


def _in_one_piece(start_ND: Any) -> Any:
    """Returns the models as the loop takes them, or None if they are not float32.

    One model for all comes as a view whose rows are the same memory.
    """
    start_ND = as_numpy(start_ND)
    if start_ND.dtype != np.float32:
        return None
    return np.asarray(start_ND if start_ND.strides[0] else start_ND[:1], order="C")


def _in_place(rule: Descent) -> Descent:
    """Returns the rule in NumPy, with moments that may be written to."""
    drift_ND, velocity_ND = rule.drift_D, rule.velocity_D
    if drift_ND is not None:
        drift_ND = np.asarray(as_numpy(drift_ND), np.float32, order="C")
    if velocity_ND is not None:
        velocity_ND = _copy(velocity_ND)
    adaptive = rule.adaptive
    if adaptive is not None and adaptive.squares_D is not None:
        adaptive = adaptive._replace(
            squares_D=_copy(adaptive.squares_D), taken_1=_copy(adaptive.taken_1)
        )
    return rule._replace(drift_D=drift_ND, velocity_D=velocity_ND, adaptive=adaptive)


def _copy(x: Any) -> Any:
    return np.array(as_numpy(x), np.float32, order="C")


def _plain(x: Any, kind: Any = np.float32) -> bool:
    return x.dtype == kind and bool(x.flags.c_contiguous and x.flags.aligned)
