"""Handwritten digits with softmax regression in plain NumPy, without torch."""

import numpy as np

from latecomer import Workload
from latecomer.data import digits
from latecomer.partitions import dirichlet


def initial(rng):
    return {"w": 0.01 * rng.standard_normal((64, 10)), "b": np.zeros(10)}


def softmax(params, x):
    scores = x @ params["w"] + params["b"]
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def gradient(params, x, y):
    p = softmax(params, x)
    true = np.arange(len(y)), y
    loss = -np.log(p[true] + 1e-12).mean()
    p[true] -= 1
    return loss, {"w": x.T @ p / len(y), "b": p.mean(axis=0)}


def train_data(client):
    x, y = digits("train")
    rows = dirichlet(y, clients=client.count, alpha=0.3, seed=0)[client.index]
    return x[rows], y[rows]


workload = Workload(
    initial=initial,
    gradient=gradient,
    evaluate=lambda p, x, y: {"accuracy": (softmax(p, x).argmax(1) == y).mean()},
    train_data=train_data,
    test_data=lambda: digits("test"),
)
