"""Logistic regression on the parity of digits: strongly convex, in plain NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.model import Metrics
from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from fedrun.data import digits

Floats = npt.NDArray[Any]
RIDGE = 0.01


def samples() -> tuple[Floats, Floats]:
    """The pixels with a constant 1, and whether the digit is odd."""
    x, y = digits("train")
    flat = np.asarray(x, np.float32).reshape(len(y), -1)
    ones = np.ones((len(flat), 1), np.float32)
    return np.concatenate([flat, ones], axis=1), (np.asarray(y) % 2).astype(np.float32)


def loss_of(w_D: Floats, x_BD: Floats, y_B: Floats) -> float:
    """The mean logistic loss with a ridge."""
    z_B = x_BD @ w_D
    return float(np.mean(np.logaddexp(0, z_B) - y_B * z_B) + RIDGE / 2 * w_D @ w_D)


def gradient_of(w_D: Floats, x_BD: Floats, y_B: Floats) -> Floats:
    """The gradient (D,) of :func:`loss_of` at the weights ``w_D``."""
    missed_B = 1 / (1 + np.exp(-x_BD @ w_D)) - y_B
    slope_D: Floats = x_BD.T @ missed_B / len(y_B) + RIDGE * w_D
    return slope_D


def _gradient(params: Tensors, x_BD: Any, y_B: Any) -> tuple[float, Tensors]:
    w_D = params["w"]
    found = gradient_of(w_D, x_BD, y_B).astype(np.float32)
    return loss_of(w_D, x_BD, y_B), {"w": found}


def _evaluate(params: Tensors, x_BD: Any, y_B: Any) -> Metrics:
    w_D = params["w"]
    right = (x_BD @ w_D > 0) == (y_B > 0.5)
    return {"loss": loss_of(w_D, x_BD, y_B), "accuracy": float(np.mean(right))}


def _all_samples(client: Client) -> tuple[Floats, Floats]:
    return samples()


workload = Workload(
    initial=lambda rng: {"w": np.zeros(65, np.float32)},
    gradient=_gradient,
    evaluate=_evaluate,
    train_data=_all_samples,
    test_data=samples,
)
