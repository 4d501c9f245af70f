"""A network of dense layers, of which a compiled loop takes all steps by itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from fedcore.arrays import as_numpy
from fedcore.kernels import dense
from fedcore.params import ParamSpec
from fedcore.workload import Steps, Taken
from fedtorch.stacked.losses import CrossEntropy, Loss

MOST_VALUES = 1 << 21  # of larger models, which no cache holds, libraries are faster


class DenseSteps:
    """The steps of local SGD of a multilayer perceptron, or of a softmax regression."""

    def __init__(self, network: dense.Dense, flattens: bool) -> None:
        self._network, self._flattens = network, flattens

    def descend(self, steps: Steps) -> Taken | None:
        """All steps; None: the data are of another form than such a network takes."""
        x, y = self._inputs(steps.x), _targets(steps.y)
        start_ND = as_numpy(steps.start_ND)
        if x is None or y is None or not _plain(start_ND):
            return None
        by, velocity_ND = steps.descent, None
        delta_ND = np.empty((len(steps.sizes_NS), start_ND.shape[1]), np.float32)
        if by.momentum and (by.keeps_velocity or steps.state is not None):
            velocity_ND = np.zeros_like(delta_ND)
            if steps.state is not None:
                velocity_ND[...] = as_numpy(steps.state)
        losses_N = dense.descend(
            self._network,
            (by.lr, by.momentum, by.weight_decay, by.pull),
            dense.Batched(x, y, steps.rows_NSB, steps.sizes_NS),
            start_ND,
            velocity_ND,
            delta_ND,
        )
        if losses_N is None:
            return None
        return Taken(delta_ND, losses_N, velocity_ND if by.keeps_velocity else None)

    def _inputs(self, x: Any) -> Any:
        """(n, inputs), or None."""
        if isinstance(x, (dict, tuple)):
            return None
        x = as_numpy(x)
        if not _plain(x) or not (self._flattens or x.ndim == 2):
            return None
        x = x.reshape(len(x), -1)
        return x if x.shape[1] == self._network.sizes[0] else None


def dense_steps(
    layers: Sequence[tuple[str, nn.Module]], spec: ParamSpec, loss: Loss
) -> DenseSteps | None:
    """For Linear layers with ReLU between them, all of them trained; else None."""
    modules = [layer for _, layer in layers]
    flattens = bool(modules) and _is_flatten(modules[0])
    linear = modules[flattens::2]
    if (
        not dense.available
        or spec.dim > MOST_VALUES
        or not isinstance(loss, CrossEntropy)
        or any(type(layer) is not nn.ReLU for layer in modules[flattens + 1 :: 2])
        or not 1 <= len(linear) <= dense.MOST_LAYERS
        or len(modules[flattens:]) % 2 == 0
    ):
        return None
    tensors = {tensor.name: tensor for tensor in spec.tensors}
    sizes, places = list[int](), list[tuple[int, int]]()
    for name, layer in layers[flattens::2]:
        names = [f"{name}.{part}" if name else part for part in ("weight", "bias")]
        weight, bias = (tensors.pop(each, None) for each in names)
        if (
            type(layer) is not nn.Linear
            or (sizes and sizes[-1] != layer.in_features)
            or weight is None
            or (bias is None) != (layer.bias is None)
        ):
            return None
        sizes += [layer.out_features] if sizes else layer.weight.shape[::-1]
        places.append((weight.offset, -1 if bias is None else bias.offset))
    if tensors:
        return None
    return DenseSteps(dense.Dense(sizes, places), flattens)


def _is_flatten(module: nn.Module) -> bool:
    return type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1)


def _targets(y: Any) -> Any:
    """(n,) of classes, or None."""
    if isinstance(y, (dict, tuple)):
        return None
    y = as_numpy(y)
    return y if y.dtype == np.int64 and y.ndim == 1 and y.flags.c_contiguous else None


def _plain(x: Any) -> bool:
    return x.dtype == np.float32 and bool(x.flags.c_contiguous and x.flags.aligned)
