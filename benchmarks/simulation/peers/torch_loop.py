"""A plain torch loop: one model, and the clients one after the other."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from benchmarks.simulation.peers.networks import client_tensors, device, network, taken
from benchmarks.simulation.peers.problem import (
    Course,
    Integers,
    Problem,
    draw_cohort,
    shuffles,
)

Data = Sequence[tuple[torch.Tensor, torch.Tensor]]


def train_round(
    problem: Problem, data: Data, module: nn.Module, cohort: Integers, orders: Integers
) -> None:
    """One round of FedAvg; the module holds the model before and after it."""
    parameters: list[torch.Tensor] = list(module.parameters())
    start = [p.detach().clone() for p in parameters]
    mean = [torch.zeros_like(p) for p in start]
    total = int(problem.sizes[cohort].sum())
    for client, order in zip(cohort, orders, strict=True):
        x, y = data[client]
        with torch.no_grad():
            torch._foreach_copy_(parameters, start)
        for at in range(0, len(y), problem.batch):
            rows = torch.from_numpy(order[at : min(at + problem.batch, len(y))])
            rows = rows.to(y.device)
            loss = nn.functional.cross_entropy(module(x[rows]), y[rows])
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                torch._foreach_add_(parameters, gradients, alpha=-problem.lr)
        with torch.no_grad():
            torch._foreach_add_(mean, parameters, alpha=len(y) / total)
    with torch.no_grad():
        torch._foreach_copy_(parameters, mean)


def main() -> None:
    course = Course()
    problem, rng = course.problem, np.random.default_rng(0)
    torch.set_num_threads(1)
    module, data = network(problem).to(device()), client_tensors(problem)
    for number in range(1, course.rounds + 1):
        cohort = draw_cohort(problem, rng)
        orders = shuffles(problem.sizes[cohort], rng)
        train_round(problem, data, module, cohort, orders)
        course.finished(number, lambda: taken(module))
    course.save()


if __name__ == "__main__":
    main()
