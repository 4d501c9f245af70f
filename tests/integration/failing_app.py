"""A line through each client's points, in NumPy; the data of one client cannot be read.

The clients have unequal numbers of samples, so each counts by another weight.
"""

from typing import Any

import numpy as np

from fedcore.params import Tensors
from fedcore.workload import Client, Workload

FAILS = 2  # the index of the client whose data cannot be read
DIM = 5


def points(index: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(index)
    x = rng.standard_normal((8 + 3 * index, DIM)).astype(np.float32)
    return x, x.sum(axis=1) + np.float32(index)


def train_data(client: Client) -> Any:
    if client.index == FAILS:
        raise OSError("the disk is gone")
    return points(client.index)


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    error = x @ params["w"] - y
    return float((error**2).mean()), {"w": 2 * x.T @ error / len(y)}


workload = Workload(
    initial=lambda rng: {"w": np.zeros(DIM)},
    gradient=gradient,
    evaluate=lambda params, x, y: {"loss": gradient(params, x, y)[0]},
    train_data=train_data,
    test_data=lambda: points(99),
)
