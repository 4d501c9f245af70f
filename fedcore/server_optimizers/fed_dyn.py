"""FedDyn's server: the mean model, moved by the sum of all updates as well.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated Learning Based on
Dynamic Regularization", ICLR 2021, arXiv 2111.04263, Algorithm 1:
h ← h - α·(1/m)·Σ (w_k - W) and X ← mean w_k - h/α, where m counts all clients. In delta
form, with H = h/α: H ← H + |P|/m·agg; X ← X - agg - H. So α is the clients' alone.

Compared with the authors' code (github.com/alpemreacar/FedDyn, ``train_FedDyn``), which
knows all m clients from the start; the paper's text was not at hand.

m counts all clients that have ever joined, and when one joins, H becomes the mean of
one more.
"""

from typing import Literal

import numpy as np

from fedcore.config import Roles
from fedcore.server_optimizers.base import (
    ServerOptimizer,
    ServerOptimizerConfig,
    Update,
)
from fedcore.typing import Vector


class FedDyn(ServerOptimizerConfig):
    """X ← X - agg - the mean of the sums of all clients' updates."""

    kind: Literal["fed_dyn"] = "fed_dyn"

    def fits(self, roles: Roles) -> None:
        """Checks that clients keep the other half.

        Raises:
            ValueError: the client algorithm is another one.
        """
        if roles.client.kind != "fed_dyn":
            raise ValueError(
                "server: fed_dyn needs client fed_dyn, whose updates it adds up; with "
                f"{roles.client.kind} choose another server optimizer"
            )

    def build(self) -> ServerOptimizer:
        """Returns the optimiser; ``update`` is that of versions made by all clients."""
        return ServerOptimizer(
            lambda dim: np.zeros(dim, np.float32), _of_share(1.0, 1.0), _of_share
        )


def _of_share(share: float, before: float) -> Update:
    def update(exact_D: Vector, agg_D: Vector, sum_D: Vector) -> tuple[Vector, Vector]:
        sum_D = np.float32(before) * sum_D + np.float32(share) * agg_D
        return exact_D - agg_D - sum_D, sum_D

    return update
