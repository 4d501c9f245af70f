"""First and second derivatives of a module's loss, by backward passes alone.

H v is the gradient of g(w) · v: a second backward pass through the graph of the first
(Pearlmutter, "Fast Exact Multiplication by the Hessian", Neural Computation 1994). One
forward pass serves all vectors, and one backward pass where torch can batch its
operations. Neither torch.func nor torch.optim is imported.
"""

import math
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedcore.errors import ModelError
from fedcore.influence.agreement import TOLERANCE, disagreement
from fedcore.influence.base import Curved
from fedcore.typing import Array, Indices, Vector
from fedcore.workload.curvature import one_by_one
from fedtorch.flat import FlatModule
from fedtorch.in_double import InDouble


class ModuleCurvature:
    """The curvature of one module's loss.

    Args:
        model: the module as a flat vector, without buffers in it; or its copy in
            float64, whose products are float64, too.
    """

    def __init__(self, model: FlatModule | InDouble) -> None:
        self._model = model
        self._is_batched = True

    def hessian(self, w_D: Vector, x: Any, y: Any) -> Curved:
        """Returns loss, gradient and the Hessian's product.

        Raises:
            ModelError: the module has an operation that is differentiable only once.
        """
        with sdpa_kernel(SDPBackend.MATH):  # the fused kernels are differentiable once
            loss = self._model.loss(w_D, x, y)
        parameters = self._model.parameters()
        parts = torch.autograd.grad(
            loss, parameters, create_graph=True, materialize_grads=True
        )
        g_D = torch.cat([part.reshape(-1) for part in parts])

        def product(v_CD: Array) -> Array:
            if not g_D.requires_grad:  # a linear loss does not bend
                return np.zeros_like(v_CD)
            there_CD = torch.tensor(v_CD, dtype=g_D.dtype, device=g_D.device)
            try:
                return self._products(g_D, parameters, there_CD).cpu().numpy()
            except RuntimeError as error:
                raise ModelError(
                    "the second derivative of this model's loss does not exist in "
                    f"torch; use the Fisher estimator: {error}"
                ) from error

        return Curved(loss.item(), g_D.detach().cpu().numpy().copy(), product)

    def _products(
        self, g_D: torch.Tensor, parameters: list[torch.Tensor], v_CD: torch.Tensor
    ) -> torch.Tensor:
        """Returns the gradients of g · v for all v, in one pass where torch can."""
        if self._is_batched:
            try:
                return _backward(g_D, parameters, v_CD, is_batched=True)
            except RuntimeError:  # an operation that takes one vector at a time
                self._is_batched = False
        return torch.stack(
            [_backward(g_D, parameters, v_D, is_batched=False) for v_D in v_CD]
        )

    def check(self, w_D: Vector, x: Any, y: Any) -> None:
        """Checks that the Hessian's product matches the gradients.

        A model that cannot compute in float64, or that draws random numbers which torch
        does not seed, is not compared.

        Raises:
            ModelError: the products do not match, or they do not exist.
        """
        self.hessian(w_D, x, y).product(np.ones((1, len(w_D)), np.float32))
        if (apart := self._disagreement(w_D, x, y)) > TOLERANCE:
            raise ModelError(
                "the Hessian products of this model do not match its gradients: they "
                f"are {apart:.0%} away from differences of gradients, since a part of "
                "the model, such as an autograd.Function or a detach(), is not "
                "differentiated twice; use the Fisher estimator (--estimator fisher)"
            )

    def _disagreement(self, w_D: Vector, x: Any, y: Any) -> float:
        if isinstance(self._model, InDouble):
            return math.nan
        try:
            model = self._model.in_double()
            exact = ModuleCurvature(model)
            return disagreement(
                w_D.astype(np.float64),
                lambda at_D: exact.hessian(at_D, x, y),
                lambda at_D: model.gradient(at_D, x, y)[1],
            )
        except Exception:  # noqa: BLE001 -- the user's module may be for float32 alone
            return math.nan

    def sample_gradients(self, w_D: Vector, x: Any, y: Any, rows_B: Indices) -> Array:
        """Returns the gradients of these samples; random draws are not used up."""
        with torch.random.fork_rng():
            return one_by_one(self._model.gradient, w_D, x, y, rows_B)


def _backward(
    g_D: torch.Tensor,
    parameters: list[torch.Tensor],
    v_D: torch.Tensor,
    *,
    is_batched: bool,
) -> torch.Tensor:
    """Returns the gradient of g · v, or those of several v, as a flat vector."""
    parts = torch.autograd.grad(
        g_D,
        parameters,
        v_D,
        retain_graph=True,
        allow_unused=True,
        is_grads_batched=is_batched,
    )
    many = v_D.shape[:-1]
    flat = [
        v_D.new_zeros(*many, parameter.numel())
        if part is None
        else part.reshape(*many, -1)
        for part, parameter in zip(parts, parameters, strict=True)
    ]
    return torch.cat(flat, dim=-1)
