"""The contract of curvature: what an influence estimator asks of a model.

The Hessian H of a mean loss is never formed. Its products with vectors are enough.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fedcore.typing import Array, Indices, Vector

Product = Callable[[Array], Array]
"""Multiplies a symmetric matrix (D, D) with each row of (C, D)."""


class Curved(NamedTuple):
    """The loss of a batch at one point, to the second order."""

    loss: float
    gradient_D: Vector
    """Its array is the caller's, who may write into it."""
    product: Product
    """Multiplies vectors with the Hessian; valid until the next point is asked for."""


class Curvature(Protocol):
    """First and second derivatives of one model's loss.

    Both functions leave the model's random draws (dropout) as they are in training, so
    a trajectory that is computed with them is the trained one.
    """

    def hessian(self, w_D: Vector, x: Any, y: Any) -> Curved:
        """Returns the mean loss over a batch, its gradient and its Hessian's product.

        Args:
            w_D: the model, shape (D,).
            x: the inputs of the batch.
            y: its targets.
        """

    def check(self, w_D: Vector, x: Any, y: Any) -> None:
        """Checks that the Hessian's product matches the gradients.

        Args:
            w_D: the model, shape (D,).
            x: the inputs of a few samples.
            y: their targets.

        Raises:
            ModelError: it does not.
        """

    def sample_gradients(self, w_D: Vector, x: Any, y: Any, rows_B: Indices) -> Array:
        """Returns the gradient of each of these samples' losses, shape (B, D).

        Args:
            w_D: the model, shape (D,).
            x: the inputs of a batch.
            y: its targets.
            rows_B: the samples of the batch.
        """
