"""A perceptron with 50,010 values in NumPy, on the digits: an update of 200 kB."""

from typing import Any

import numpy as np

from fedcore.model import Metrics
from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from fedrun.data import digits

HIDDEN = 666


def initial(rng: np.random.Generator) -> Tensors:
    """Draws the first weights."""
    return {
        "w1": 0.1 * rng.standard_normal((64, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": 0.05 * rng.standard_normal((HIDDEN, 10)),
        "b2": np.zeros(10),
    }


def _forward(params: Tensors, x: Any) -> tuple[Any, Any]:
    hidden = np.maximum(0, x @ params["w1"] + params["b1"])
    scores = hidden @ params["w2"] + params["b2"]
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, exp / exp.sum(axis=1, keepdims=True)


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    """The loss and its gradient."""
    (hidden, p), true = _forward(params, x), (np.arange(len(y)), y)
    loss = float(-np.log(p[true] + 1e-12).mean())
    p[true] -= 1
    p /= len(y)
    back = (p @ params["w2"].T) * (hidden > 0)
    return loss, {
        "w1": x.T @ back,
        "b1": back.sum(axis=0),
        "w2": hidden.T @ p,
        "b2": p.sum(axis=0),
    }


def evaluate(params: Tensors, x: Any, y: Any) -> Metrics:
    """Returns the share of images whose class is the most probable."""
    return {"accuracy": float((_forward(params, x)[1].argmax(axis=1) == y).mean())}


def train_data(client: Client) -> Any:
    """Returns every count-th image, from the client's index on."""
    x, y = digits("train")
    return x[client.index :: client.count], y[client.index :: client.count]


workload = Workload(
    initial=initial,
    gradient=gradient,
    evaluate=evaluate,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
