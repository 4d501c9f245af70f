"""A small network, of which a compiled loop takes all steps by itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from fedcore.arrays import as_numpy
from fedcore.kernels import descent
from fedcore.kernels.descent import Layer
from fedcore.params import ParamSpec
from fedcore.workload import Steps, Taken
from fedtorch.stacked.losses import CrossEntropy, Loss
from fedtorch.stacked.network import Shape, Step, network, planned

MOST_VALUES = 1 << 21  # of larger models, which no cache holds, libraries are faster


class CompiledSteps:
    """The steps of local SGD of a plain sequence of layers under cross-entropy."""

    def __init__(self, plan: Sequence[Step]) -> None:
        self._plan = plan
        self._networks: dict[Shape, Sequence[Layer] | None] = {}

    def descend(self, steps: Steps) -> Taken | None:
        """All steps; None: the data are of another form than such a network takes."""
        x, y = _inputs(steps.x), _targets(steps.y)
        start_ND = as_numpy(steps.start_ND)
        if x is None or y is None or not _plain(start_ND):
            return None
        layers = self._network(x.shape[1:])
        if layers is None:
            return None
        by, velocity_ND = steps.descent, None
        delta_ND = np.empty((len(steps.sizes_NS), start_ND.shape[1]), np.float32)
        if by.momentum and (by.keeps_velocity or steps.state is not None):
            velocity_ND = np.zeros_like(delta_ND)
            if steps.state is not None:
                velocity_ND[...] = as_numpy(steps.state)
        losses_N = descent.descend(
            layers,
            (by.lr, by.momentum, by.weight_decay, by.pull),
            descent.Batched(x, y, steps.rows_NSB, steps.sizes_NS),
            start_ND,
            velocity_ND,
            delta_ND,
        )
        if losses_N is None:
            return None
        return Taken(delta_ND, losses_N, velocity_ND if by.keeps_velocity else None)

    def _network(self, shape: Shape) -> Sequence[Layer] | None:
        """For samples of this shape."""
        if shape not in self._networks:
            self._networks[shape] = network(self._plan, shape)
        return self._networks[shape]


def compiled_steps(
    layers: Sequence[tuple[str, nn.Module]], spec: ParamSpec, loss: Loss
) -> CompiledSteps | None:
    """For layers that the loop knows, all of them trained; else None."""
    if (
        not descent.available
        or spec.dim > MOST_VALUES
        or not isinstance(loss, CrossEntropy)
        or not 1 <= len(layers) <= descent.MOST_LAYERS
    ):
        return None
    plan = planned(layers, spec)
    return None if plan is None else CompiledSteps(plan)


def _inputs(x: Any) -> Any:
    """(n, ...) of float32, or None."""
    if isinstance(x, (dict, tuple)):
        return None
    x = as_numpy(x)
    return x if _plain(x) and x.ndim > 1 else None


def _targets(y: Any) -> Any:
    """(n,) of classes, or None."""
    if isinstance(y, (dict, tuple)):
        return None
    y = as_numpy(y)
    return y if _plain(y, np.int64) and y.ndim == 1 else None


def _plain(x: Any, kind: Any = np.float32) -> bool:
    return x.dtype == kind and bool(x.flags.c_contiguous and x.flags.aligned)
