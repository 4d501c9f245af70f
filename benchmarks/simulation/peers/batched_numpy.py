"""Bare arithmetic: the perceptron's passes as matrix products of NumPy.

The same as ``batched_torch``; NumPy spends less on each call, and multiplies one
client's matrices after the other's. Each step reuses its arrays: new ones of this size
need new pages of memory each time, which halves the speed.
"""

import math

import numpy as np

from benchmarks.simulation.peers.problem import Floats, Integers, Problem, Weights
from benchmarks.simulation.peers.stacking import Step, run, steps


class BatchedNumpy:
    """Perceptrons with one hidden layer, one for each client of a cohort."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._weights = problem.initial
        self._stack = [
            np.empty((problem.cohort, *w.shape), np.float32) for w in self._weights
        ]
        self._rooms: dict[str, Floats] = {}

    def train_round(self, cohort: Integers, orders: Integers) -> None:
        """One round of FedAvg over a cohort that is sorted by size."""
        problem = self._problem
        for mine, w in zip(self._stack, self._weights, strict=True):
            mine[...] = w
        for step in steps(problem, cohort, orders):
            self._step(step)
        sizes = problem.sizes[cohort]
        share = (sizes / sizes.sum()).astype(np.float32)
        self._weights = [np.tensordot(share, w, 1) for w in self._stack]

    def _step(self, step: Step) -> None:
        n, b = step.rows.shape
        w0, b0, w1, b1 = (w[:n] for w in self._stack)
        room = self._room("x", n, b, w0.shape[2])
        # Any other mode goes through a copy.
        x = self._problem.x.take(step.rows, axis=0, out=room, mode="clip")
        y = self._problem.y[step.rows]
        hidden = np.matmul(x, w0.mT, out=self._room("hidden", n, b, w0.shape[1]))
        hidden += b0[:, None]
        np.maximum(hidden, 0, out=hidden)
        error = np.matmul(hidden, w1.mT, out=self._room("error", n, b, w1.shape[1]))
        error += b1[:, None]
        error -= error.max(axis=2, keepdims=True)
        np.exp(error, out=error)
        error /= error.sum(axis=2, keepdims=True)
        error[np.arange(n)[:, None], np.arange(b), y] -= 1
        error *= (step.weights * np.float32(self._problem.lr))[:, :, None]
        back = np.matmul(error, w1, out=self._room("back", *hidden.shape))
        back *= hidden > 0
        w1 -= np.matmul(error.mT, hidden, out=self._room("w1", *w1.shape))
        b1 -= error.sum(axis=1)
        w0 -= np.matmul(back.mT, x, out=self._room("w0", *w0.shape))
        b0 -= back.sum(axis=1)

    def _room(self, name: str, *shape: int) -> Floats:
        """An array to write into, the same memory whenever it is large enough."""
        size = math.prod(shape)
        if name not in self._rooms or self._rooms[name].size < size:
            self._rooms[name] = np.empty(size, np.float32)
        return self._rooms[name][:size].reshape(shape)

    def weights(self) -> Weights:
        """The model."""
        return self._weights


if __name__ == "__main__":
    run(BatchedNumpy)
