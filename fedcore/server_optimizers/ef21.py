"""EF21's server: g ← g + share·agg; X ← X - η·g.

Richtárik, Sokolov, Fatkhullin, NeurIPS 2021, arXiv 2106.05203, Algorithm 2, and with
partial participation arXiv 2110.03294, Algorithm 4: clients send the change of what
they would have sent, and g is the mean over all clients of what each stands for. The
paper divides by all n clients, and the aggregate is a mean over K of them: ``share`` is
K/n. If a deadline passes before K updates are there, the aggregate is a mean over K all
the same, in which the missing ones are zeros.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.config import Roles
from fedcore.server_optimizers.base import ServerOptimizer, ServerOptimizerConfig
from fedcore.typing import Vector


class EF21(ServerOptimizerConfig):
    """The sum of all that the clients' ef21 memories sent."""

    kind: Literal["ef21"] = "ef21"
    lr: float = Field(default=1.0, gt=0)
    """η."""
    share: float = Field(default=1.0, gt=0, le=1)
    """K/n, the share of the clients whose updates make a new version."""

    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""
        return ServerOptimizer(lambda dim: np.zeros(dim, np.float32), self._update)

    def keeps_state(self, other: ServerOptimizerConfig) -> bool:
        """Returns True, since clients rely on the sum of their messages."""
        return isinstance(other, EF21)

    def fits(self, roles: Roles) -> None:
        """Checks that the uplink is ef21, which alone sends changes.

        Raises:
            ValueError: the uplink sends whole updates.
        """
        if roles.uplink.kind != "ef21":
            raise ValueError(
                "server: ef21 adds up changes, which only the uplink ef21 sends; with "
                f"{roles.uplink.kind} choose another server optimizer"
            )

    def _update(
        self, exact_D: Vector, agg_D: Vector, mean_D: Vector
    ) -> tuple[Vector, Vector]:
        mean_D = mean_D + np.float32(self.share) * agg_D
        return exact_D - np.float32(self.lr) * mean_D, mean_D
