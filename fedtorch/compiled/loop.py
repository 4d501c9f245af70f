"""Small networks: all steps of gradient descent of a client in one loop."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedcore.clients import Adaptive, Descent
from fedcore.kernels.library import load
from fedcore.typing import Indices

INTERFACE = 2  # of the compiled module; another one was left by an older install
_compiled = load(name="fedtorch.compiled._compiled", interface=INTERFACE)
available = hasattr(_compiled, "descend")
"""Whether there is such a loop. It has no twin: without it, gradients are asked for."""
MOST_LAYERS = 64
KINDS = ("product", "maximum", "mean")


class Layer(NamedTuple):
    """A convolution, or a pool; inputs and outputs are channels, rows and columns.

    A layer takes the output of the layer before it. A linear layer is a convolution of
    an image of 1 x 1 with a kernel of 1 x 1, and takes the values of any image in their
    order. The last layer returns an image of 1 x 1: the scores of the classes.
    """

    inputs: tuple[int, int, int]
    outputs: tuple[int, int, int]
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)  # (0, 0): the means of parts of equal size
    pad: tuple[int, int] = (0, 0)  # zeros on both sides; of maxima, what never is one
    kind: Literal["product", "maximum", "mean"] = "product"
    rectified: bool = False  # the outputs, by ReLU
    weight: int = -1
    """Where the weights (outputs, inputs, *kernel) lie in the flat vector."""
    bias: int = -1  # -1: there is none

    def numbers(self) -> list[int]:
        """Returns the layer's numbers in the order of ``Shape`` in c/descent.h."""
        return [
            KINDS.index(self.kind),
            self.rectified,
            *self.inputs,
            *self.outputs,
            *self.kernel,
            *self.stride,
            *self.pad,
            self.weight,
            self.bias,
        ]


Shape = tuple[int, ...]
"""The shape of one sample."""
Offsets = Mapping[str, int]
"""Where each parameter of a torch layer begins in the flat vector, by its name."""
Compiled = Callable[[list[Layer], Shape], Shape | None]
"""Adds to the layers of the loop what a torch layer does with such samples.

Returns the shape of its output, or None where the loop cannot compute it.
"""


class Samples(NamedTuple):
    """The samples, and which of them each step of each client uses."""

    x: Any  # (n, inputs) float32
    y: Any  # (n,) int64
    rows_NSB: Indices
    sizes_NS: Indices  # of each batch; 0 after a client's last one


def descend(
    network: Sequence[Layer],
    rule: Descent,
    samples: Samples,
    start_ND: Any,
    delta_ND: Any,
    lanes: int = 0,
    frozen: Sequence[slice] = (),
) -> Any:
    """Takes all steps of N clients by cross-entropy.

    The result of a client does not depend on the others.

    Args:
        network: what is trained.
        rule: of the steps. Its drift is float32 (N, D), or (1, D) for all; its velocity
            and its squares are float32 (N, D), and are changed in place as is the count
            (N, 1) of the steps that they have seen.
        samples: of all clients.
        start_ND: float32, or (1, D): one model for all.
        delta_ND: where Δ = start - w goes.
        lanes: numbers of a register, 4, 8 or 16; 0: as many as there are. The result
            does not depend on it.
        frozen: the parts of the models that no step moves.

    Returns:
        The mean losses (N,); None: a target is not one of the classes.
    """
    assert _compiled is not None
    losses_N = np.empty(len(delta_ND), np.float64)
    sizes_NS = np.asarray(samples.sizes_NS, np.int64, order="C")
    adam, squares_ND, powers_N2 = rule.adaptive or Adaptive(), None, None
    if adam.squares_D is not None and adam.taken_1 is not None:
        squares_ND, taken_N1 = adam.squares_D, adam.taken_1
        powers_N2 = np.array([rule.momentum, adam.beta_2]) ** taken_N1
        taken_N1 += np.count_nonzero(sizes_NS, axis=1, keepdims=True)
    fine: bool = _compiled.descend(
        np.array([layer.numbers() for layer in network], np.int64),
        (
            *(rule.lr, rule.momentum, rule.weight_decay, rule.pull),
            *(rule.clip_norm, rule.clip_value, adam.beta_2, adam.eps),
            *(rule.nesterov, rule.adaptive is not None, adam.decoupled, rule.period),
        ),
        samples.x,
        samples.y,
        np.asarray(samples.rows_NSB, np.int64, order="C"),
        sizes_NS,
        start_ND,
        rule.drift_D,
        rule.velocity_D,
        squares_ND,
        powers_N2,
        _mask_trained(rule, frozen, delta_ND.shape[1]),
        delta_ND,
        losses_N,
        lanes,
    )
    return losses_N if fine else None


def _mask_trained(rule: Descent, frozen: Sequence[slice], dim: int) -> Any:
    """Returns (D,) which values steps move, if the loop has to know; else None.

    A norm is that of the model's values alone, without the loop's padding.
    """
    if not frozen and rule.clip_norm == math.inf:
        return None
    trained_D = np.ones(dim, np.float32)
    for part in frozen:
        trained_D[part] = 0
    return trained_D
