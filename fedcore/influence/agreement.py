"""Compares products with a Hessian to differences of gradients.

Both belong to one model, computed in float64. The product H v is compared with
(g(w + s v) - g(w - s v)) / 2s, where v is as long as w.

The smallest step s crosses no kink of the loss (ReLU, max-pooling) but by chance: about
one in 10⁸ of all activations lies so near to a kink. There a difference is exact to
about 10⁻⁸. The larger steps are for models that round to a lower precision on their
way, in which a small step is lost. Products match if one of the steps says so, from one
of a few points: a product that lacks a term matches none of them.
"""

import math
from collections.abc import Callable

import numpy as np

from fedcore.influence.base import Curved
from fedcore.rng import Key
from fedcore.typing import Array

STEPS = (1e-8, 1e-4, 1e-2, 5e-2)
TRIES = 3
TOLERANCE = 0.1
NOTHING = 1e-6  # a product that is smaller than this share of the gradient


def disagreement(
    w_D: Array,
    hessian: Callable[[Array], Curved],
    gradient: Callable[[Array], Array],
) -> float:
    """Returns how far products with the Hessian are from differences of gradients.

    Args:
        w_D: a model. Points near to it are tried, since terms vanish where weights are
            zero.
        hessian: returns gradient and product at a point, in float64.
        gradient: returns the gradient at a point, in float64.

    Returns:
        The distance, as a share of the longer of both. NaN: nothing can be said, since
        the gradient is random or not finite.
    """
    rng = Key.root(0).fold_in("agreement").generator()
    size = max(1.0, float(np.linalg.norm(w_D)))
    least = math.inf
    for _ in range(TRIES):
        noise_D, v_D = rng.standard_normal((2, len(w_D)))
        at_D = w_D + _as_long_as(0.1 * size, noise_D)
        v_D = _as_long_as(size, v_D)
        g_D = gradient(at_D)
        if not np.array_equal(g_D, gradient(at_D)):
            return math.nan
        product_D = hessian(at_D).product(v_D[None])[0]
        floor = NOTHING * float(np.linalg.norm(g_D))
        for step in STEPS:
            up_D, down_D = gradient(at_D + step * v_D), gradient(at_D - step * v_D)
            apart = _apart(product_D, (up_D - down_D) / (2 * step), floor)
            if not apart > TOLERANCE:
                return apart
            least = min(least, apart)
    return least


def _as_long_as(size: float, v_D: Array) -> Array:
    return v_D * (size / float(np.linalg.norm(v_D)))


def _apart(one_D: Array, other_D: Array, floor: float) -> float:
    sizes = float(np.linalg.norm(one_D)), float(np.linalg.norm(other_D))
    apart = float(np.linalg.norm(one_D - other_D))
    return apart / max(*sizes, floor) if apart else 0.0
