"""A learning rate that is constant at first, and then falls in a line.

Federated SGD with a constant rate stays at a distance from the optimum that is
proportional to it where clients differ: Li, Huang, Yang, Wang, Zhang, "On the
Convergence of FedAvg on Non-IID Data", ICLR 2020, Theorem 4.
"""

from typing import Literal

from fedcore.lr_schedules._span import Span


class Linear(Span):
    """Falls in a line from one version to another."""

    kind: Literal["linear"] = "linear"

    def share(self, version: int) -> float:
        """Returns the factor of the rate at a version."""
        return 1 - (1 - self.to) * self.progress(version)
