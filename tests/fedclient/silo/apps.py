"""Apps for the workers of a silo: one that learns, and some with a fault."""

import os
import sys
from typing import Any

import numpy as np

from fedcore.params import Tensors
from fedcore.samples import Subset
from fedcore.workload import Client, Trained, TrainingTask, Workload

RNG = np.random.default_rng(7)
X = RNG.standard_normal((101, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 101)


def initial(rng: np.random.Generator) -> Tensors:
    return {"w": 0.1 * rng.standard_normal((6, 3)), "b": np.zeros(3)}


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    scores = x @ params["w"] + params["b"]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    return float(loss), {"w": x.T @ p / len(y), "b": p.mean(axis=0)}


def train_data(client: Client) -> Any:
    return X, Y


def app(**changes: Any) -> Workload:
    parts = {"initial": initial, "gradient": gradient, "train_data": train_data}
    return Workload(**(parts | changes))


def raising(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    raise ValueError("no gradient today")


def dying(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    os._exit(3)


def dying_data(client: Client) -> Any:
    if "FEDCLIENT_TEST_PARENT" in os.environ:
        os._exit(4)
    return X, Y


def other_data(client: Client) -> Any:
    return X + os.getpid(), Y


def loop(params: Tensors, data: Any, task: TrainingTask) -> Trained:
    return Trained(params, samples=1)


workload = app()
subset = app(train_data=lambda client: Subset(X, Y, np.arange(100, 0, -1)))
raises = app(gradient=raising)
exits = app(gradient=lambda *given: sys.exit(3))
dies = app(gradient=dying)
other = app(train_data=other_data)
own_loop = Workload(initial=initial, train=loop, train_data=train_data)
