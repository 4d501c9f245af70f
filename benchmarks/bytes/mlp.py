"""A perceptron with one hidden layer, in plain NumPy."""

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.bytes.data import Share, fashion_mnist, shares, small_digits
from fedcore.params import Tensors
from fedcore.workload import Workload


def perceptron(sizes: tuple[int, int, int], share: Share) -> Workload:
    """Its workload."""
    return Workload(
        initial=lambda rng: initial(rng, sizes),
        gradient=gradient,
        evaluate=evaluate,
        train_data=shares(share),
    )


def initial(rng: np.random.Generator, sizes: tuple[int, int, int]) -> Tensors:
    """Uniform within ±1/√(inputs), as torch draws a linear layer."""
    params = {}
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        most = rows**-0.5
        params[f"w{layer}"] = rng.uniform(-most, most, (rows, columns))
        params[f"b{layer}"] = rng.uniform(-most, most, columns)
    return {name: array.astype(np.float32) for name, array in params.items()}


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    """The mean cross-entropy of a batch, and its gradient."""
    hidden = np.maximum(x @ params["w0"] + params["b0"], 0)
    p = _softmax(hidden @ params["w1"] + params["b1"])
    true = np.arange(len(y)), y
    loss = -np.log(p[true] + np.float32(1e-12)).mean()
    p[true] -= 1
    p /= np.float32(len(y))
    back = (p @ params["w1"].T) * (hidden > 0)
    return float(loss), {
        "w0": x.T @ back,
        "b0": back.sum(axis=0),
        "w1": hidden.T @ p,
        "b1": p.sum(axis=0),
    }


def evaluate(params: Tensors, x: Any, y: Any) -> dict[str, float]:
    """The share of right answers."""
    hidden = np.maximum(x @ params["w0"] + params["b0"], 0)
    found = (hidden @ params["w1"] + params["b1"]).argmax(axis=1)
    return {"accuracy": float((found == y).mean())}


def _softmax(scores: Any) -> Any:
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


fashion = perceptron((784, 128, 10), fashion_mnist)
digits = perceptron((64, 32, 10), small_digits)
