"""A perceptron that every processor trains to the same bits.

IEEE 754 says what a sum, difference, product, quotient or square root is rounded to.
How a library adds up a matrix product, and how it comes to an exponential, differs with
the processor. So here sums are taken in order, as ``np.add.accumulate`` takes them, and
the exponential is a polynomial. Losses alone go through a library's logarithm.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcore.model import StackedModel, Steps
from fedcore.typing import Array
from fedcore.workload import Client, GradientWorkload
from fedcore.workload.named import NamedModel
from fedrun.data import digits

Params = Mapping[str, Any]

_SHAPES = {"w1": (64, 8), "b1": (8,), "w2": (8, 10), "b2": (10,)}
# Cephes' expf: e^r for |r| <= ln 2 / 2, the highest power first.
_POWERS = [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3]
_POWERS += [4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1]
_LOG_2E, _LN_2, _REST = map(np.float32, (1.44269504, 0.693359375, -2.12194440e-4))


def product(a_MK: Array, b_KN: Array) -> Any:
    """The matrix product, each sum from its first term to its last."""
    return np.add.accumulate(a_MK[:, :, None] * b_KN[None], axis=1)[:, -1]


def exponential(x: Array) -> Any:
    """e^x of numbers that are not above 0."""
    x = np.maximum(x, np.float32(-87))
    n = np.rint(x * _LOG_2E)
    r = x - n * _LN_2 - n * _REST
    p = np.full_like(r, _POWERS[0])
    for power in _POWERS[1:]:
        p = p * r + np.float32(power)
    return np.ldexp(p * r * r + r + np.float32(1), n.astype(np.int32))


def initial(_: object = None) -> dict[str, Any]:
    """The same weights in every run, between -.3 and .3."""
    rng = np.random.default_rng(0)
    drawn = {name: rng.random(shape, np.float32) for name, shape in _SHAPES.items()}
    return {name: np.float32(0.6) * w - np.float32(0.3) for name, w in drawn.items()}


def _scores(params: Params, x: Any) -> tuple[Any, Any]:
    hidden = np.maximum(product(x, params["w1"]) + params["b1"], np.float32(0))
    return hidden, product(hidden, params["w2"]) + params["b2"]


def _in_order(rows: Any) -> Any:
    return np.add.accumulate(rows, axis=0)[-1]


def _cross_entropy(scores: Any, y: Any) -> tuple[float, Any]:
    """The mean loss, and its gradient at the scores."""
    rows, size = np.arange(len(y)), np.float32(len(y))
    scores = scores - scores.max(axis=1, keepdims=True)
    powers = exponential(scores)
    sums = np.add.accumulate(powers, axis=1)[:, -1:]
    of_target = scores[rows, y]
    losses = [
        math.log(total) - score
        for total, score in zip(sums[:, 0].tolist(), of_target.tolist(), strict=True)
    ]
    g = powers / sums
    g[rows, y] -= np.float32(1)
    return math.fsum(losses) / len(y), g / size


def gradient(params: Params, x: Any, y: Any) -> tuple[float, dict[str, Any]]:
    """The mean cross-entropy and its gradients."""
    hidden, scores = _scores(params, x)
    loss, g = _cross_entropy(scores, y)
    inner = np.where(hidden > 0, product(g, params["w2"].T), np.float32(0))
    return loss, {
        "w1": product(x.T, inner),
        "b1": _in_order(inner),
        "w2": product(hidden.T, g),
        "b2": _in_order(g),
    }


def place(scores: Any) -> float:
    """Where a model stands: the product of its scores and signs that never change.

    ``fsum`` rounds once, whatever the order, so equal scores stand at the same place.
    """
    flat = np.ravel(scores).astype(np.float64)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], flat.size)
    return math.fsum((flat * signs).tolist())


def evaluate(params: Params, x: Any, y: Any) -> dict[str, float]:
    """The loss, and where the model stands."""
    _, scores = _scores(params, x)
    return {"loss": _cross_entropy(scores, y)[0], "place": place(scores)}


def train_data(client: Client) -> tuple[Any, Any]:
    """Of unequal sizes, and of neighbouring classes."""
    x, y = digits("train")
    order = np.argsort(y, kind="stable")
    first = client.index * len(y) // client.count
    rows = order[first : first + 30 + 12 * (client.index % 5) : 1 + client.index % 2]
    return x[rows], y[rows]


def test_data() -> tuple[Any, Any]:
    """A few images."""
    x, y = digits("test")
    return x[:40], y[:40]


class _Rows(NamedModel):
    """The same model for a stack, one row after the other."""

    buffers: slice | None = None
    how = "row by row"

    def stack(self, device: str = "cpu") -> StackedModel:
        return self

    def gradient(self, w: Any, x: Any, y: Any, sizes_N: Any = None) -> Any:
        if sizes_N is None:
            return super().gradient(w, x, y)
        found = [
            super(_Rows, self).gradient(row_D, x_B[:size], y_B[:size])
            for row_D, x_B, y_B, size in zip(w, x, y, sizes_N, strict=True)
        ]
        losses, rows = zip(*found, strict=True)
        return np.array(losses), np.stack(rows)

    def descend(self, steps: Steps) -> None:
        """Needs gradients."""
        return


@dataclass(frozen=True, kw_only=True)
class ExactWorkload(GradientWorkload):
    """Named arrays, alone and in stacks."""

    def flat(self) -> NamedModel:
        return _Rows(self, self.gradient)


WORKLOAD = ExactWorkload(
    initial=initial,
    gradient=gradient,
    evaluate=evaluate,
    train_data=train_data,
    test_data=test_data,
)
