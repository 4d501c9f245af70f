"""Softmax regression on the digits, on a device that takes ``ms`` for each sample."""

import time
from typing import Any

import numpy as np

from fedcore.model import Metrics
from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from fedrun.data import digits

SLOW = {"seconds": 0.0}  # of a sample; a process is one client


def softmax(params: Tensors, x: Any) -> Any:
    """Returns the probabilities of the classes (B, C)."""
    scores = x @ params["w"]
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    """The loss and its gradient, after as long as the device takes."""
    time.sleep(len(y) * SLOW["seconds"])
    p, true = softmax(params, x), (np.arange(len(y)), y)
    loss = float(-np.log(p[true] + 1e-12).mean())
    p[true] -= 1
    return loss, {"w": x.T @ p / len(y)}


def evaluate(params: Tensors, x: Any, y: Any) -> Metrics:
    """Returns the share of images whose class is the most probable."""
    return {"accuracy": float((softmax(params, x).argmax(axis=1) == y).mean())}


def train_data(client: Client) -> Any:
    """Returns every count-th image, from the client's index on."""
    SLOW["seconds"] = float(client.args["ms"]) / 1000
    x, y = digits("train")
    return x[client.index :: client.count], y[client.index :: client.count]


workload = Workload(
    initial=lambda rng: {"w": 0.01 * rng.standard_normal((64, 10))},
    gradient=gradient,
    evaluate=evaluate,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
