"""Bare arithmetic: the perceptron's passes as batched matrix products of torch.

This is the rest when a simulator has no overhead at all: no clients, messages or
versions, and no model but this one.
"""

import numpy as np
import torch

from benchmarks.simulation.peers.problem import Integers, Problem, Weights
from benchmarks.simulation.peers.stacking import run, steps


class BatchedTorch:
    """Perceptrons with one hidden layer, one for each client of a cohort."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._x, self._y = torch.from_numpy(problem.x), torch.from_numpy(problem.y)
        self._weights: list[torch.Tensor] = [
            torch.from_numpy(array) for array in problem.initial
        ]
        self._stack = [w.new_empty(problem.cohort, *w.shape) for w in self._weights]

    @torch.inference_mode()
    def train_round(self, cohort: Integers, orders: Integers) -> None:
        """One round of FedAvg over a cohort that is sorted by size."""
        problem = self._problem
        for mine, w in zip(self._stack, self._weights, strict=True):
            mine.copy_(w.expand_as(mine))
        for step in steps(problem, cohort, orders):
            self._step(torch.from_numpy(step.rows), torch.from_numpy(step.weights))
        sizes = problem.sizes[cohort]
        share = torch.from_numpy((sizes / sizes.sum()).astype(np.float32))
        self._weights = [(share @ w.flatten(1)).view(w.shape[1:]) for w in self._stack]

    def _step(self, rows: torch.Tensor, weights: torch.Tensor) -> None:
        w0, b0, w1, b1 = (w[: len(rows)] for w in self._stack)
        lr = self._problem.lr
        x, y = self._x[rows], self._y[rows]
        hidden = torch.baddbmm(b0.unsqueeze(1), x, w0.mT).relu_()
        logits = torch.baddbmm(b1.unsqueeze(1), hidden, w1.mT)
        error = torch.softmax(logits, dim=2)
        error.scatter_add_(2, y.unsqueeze(2), error.new_full((*y.shape, 1), -1.0))
        error.mul_(weights.unsqueeze(2))
        back = torch.bmm(error, w1).mul_(hidden > 0)
        w1.baddbmm_(error.mT, hidden, alpha=-lr)
        b1.sub_(error.sum(dim=1), alpha=lr)
        w0.baddbmm_(back.mT, x, alpha=-lr)
        b0.sub_(back.sum(dim=1), alpha=lr)

    def weights(self) -> Weights:
        """The model."""
        return [w.numpy() for w in self._weights]


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(BatchedTorch)
