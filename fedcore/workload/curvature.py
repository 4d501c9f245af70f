"""Curvature from gradients alone, by central differences.

H v ≈ (g(w + r v) - g(w - r v)) / 2r, with r ‖v‖ = ∛eps · max(1, ‖w‖). The error is of
the order r²‖v‖³ times the third derivative, and rounding adds about eps ‖g‖ / r: a
relative error of about eps^(2/3), which is 2·10⁻⁵ in float32. Where a kink of the loss
(ReLU) lies between the two points, the difference sees both sides. A product costs two
gradients for each vector.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedcore.influence.base import Curved
from fedcore.samples import take_rows
from fedcore.typing import Array, Indices, Vector

Gradient = Callable[[Vector, Any, Any], tuple[float, Vector]]


class FiniteDifferences:
    """The curvature of a model whose gradients are known.

    Args:
        gradient: ``gradient(w_D, x, y)`` returns the mean loss and its gradient (D,).
    """

    def __init__(self, gradient: Gradient) -> None:
        self._gradient = gradient

    def hessian(self, w_D: Vector, x: Any, y: Any) -> Curved:
        """Returns loss, gradient and the Hessian's product by central differences."""
        loss, g_D = self._gradient(w_D, x, y)
        g_D = np.array(g_D)
        at_D = np.array(w_D)  # the caller goes on from here
        eps = float(np.finfo(at_D.dtype).eps)
        reach = eps ** (1 / 3) * max(1.0, float(np.linalg.norm(at_D)))

        def product(v_CD: Array) -> Array:
            found_CD = np.zeros_like(v_CD)
            for v_D, found_D in zip(v_CD, found_CD, strict=True):
                if size := float(np.linalg.norm(v_D)):
                    step_D = (v_D * (reach / size)).astype(at_D.dtype)
                    up_D = np.array(self._gradient(at_D + step_D, x, y)[1])
                    down_D = self._gradient(at_D - step_D, x, y)[1]
                    found_D[...] = (up_D - down_D) * (size / (2 * reach))
            return found_CD

        return Curved(loss, g_D, product)

    def check(self, w_D: Vector, x: Any, y: Any) -> None:
        """Accepts all: the products are differences of gradients."""

    def sample_gradients(self, w_D: Vector, x: Any, y: Any, rows_B: Indices) -> Array:
        """Returns the gradients of these samples, asked for one by one."""
        return one_by_one(self._gradient, w_D, x, y, rows_B)


def one_by_one(
    gradient: Gradient, w_D: Vector, x: Any, y: Any, rows_B: Indices
) -> Array:
    """Returns the gradient of each of these samples, shape (B, D)."""
    found_BD = np.empty((len(rows_B), len(w_D)), w_D.dtype)
    for found_D, row in zip(found_BD, rows_B.tolist(), strict=True):
        row_1 = np.array([row])
        found_D[...] = gradient(w_D, take_rows(x, row_1), take_rows(y, row_1))[1]
    return found_BD
