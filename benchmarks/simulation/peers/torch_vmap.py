"""torch.func: the gradients of all clients of a round by one vmap."""

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from benchmarks.simulation.peers.networks import device, network
from benchmarks.simulation.peers.problem import Integers, Problem, Weights
from benchmarks.simulation.peers.stacking import run, steps

Parameters = dict[str, torch.Tensor]


class TorchVmap:
    """A model whose gradients are computed for many clients at once."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._device = where = device()
        self._module = network(problem).to(where)
        self._x, self._y = (
            torch.from_numpy(array).to(where) for array in (problem.x, problem.y)
        )
        self._parameters: Parameters = {
            name: p.detach() for name, p in self._module.named_parameters()
        }
        self._gradients = vmap(grad(self._loss), randomness="different")

    def _loss(
        self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor
    ) -> torch.Tensor:
        logits = functional_call(self._module, parameters, (x,))
        return (nn.functional.cross_entropy(logits, y, reduction="none") * w).sum()

    @torch.no_grad()
    def train_round(self, cohort: Integers, orders: Integers) -> None:
        """One round of FedAvg over a cohort that is sorted by size."""
        problem = self._problem
        stack = {
            name: p.expand(len(cohort), *p.shape).clone()
            for name, p in self._parameters.items()
        }
        for step in steps(problem, cohort, orders):
            n, rows = len(step.rows), torch.from_numpy(step.rows).to(self._device)
            part = {name: p[:n] for name, p in stack.items()}
            weights = torch.from_numpy(step.weights).to(self._device)
            gradients = self._gradients(part, self._x[rows], self._y[rows], weights)
            for name, gradient in gradients.items():
                part[name].sub_(gradient, alpha=problem.lr)
        sizes = problem.sizes[cohort]
        share = torch.from_numpy((sizes / sizes.sum()).astype(np.float32))
        share = share.to(self._device)
        self._parameters = {
            name: torch.tensordot(share, p, dims=1) for name, p in stack.items()
        }

    def weights(self) -> Weights:
        """The model."""
        return [p.cpu().numpy() for p in self._parameters.values()]


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(TorchVmap)
