"""Schedule-free SGD: clients train near a running average of the models.

Defazio, Yang, Mehta, Mishchenko, Khaled, Cutkosky, "The Road Less Scheduled", NeurIPS
2024, arXiv 2405.15682, equations 1 to 3, with the aggregate in place of the gradient:
z ← z - η·agg; x ← (1 - c)·x + c·z; X = (1 - β)·z + β·x. The average is weighted
polynomially, c = (p + 1)/(t + p + 1) for the step t = 0, 1, ..., so that it follows
about the last 1/(p + 1) of all versions: Shamir and Zhang, "Stochastic Gradient Descent
for Non-smooth Optimization", ICML 2013, §4; p = 0 is the paper's mean of all.

A version is made of few updates, which are a noisy sample of the clients. The average
evens that noise out without a smaller rate. What is published is X, as with any other
optimiser, so the models that clients and evaluators hold are the averaged ones but for
the share 1 - β.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedcore.arrays import BLOCK
from fedcore.server_optimizers.base import ServerOptimizer, ServerOptimizerConfig
from fedcore.typing import Vector


class Averaging(NamedTuple):
    """The place of the fast iterate."""

    steps: int
    """t, the versions that were made."""
    ahead_D: Vector
    """z - x."""


class ScheduleFree(ServerOptimizerConfig):
    """SGD with averaging, which needs no schedule of its rate."""

    kind: Literal["schedule_free"] = "schedule_free"
    lr: float = Field(default=1.0, gt=0)
    """η."""
    beta: float = Field(default=0.7, ge=0, le=1)
    """β, how near the published model is to the average; 0: plain SGD."""
    power: float = Field(default=4.0, ge=0)
    """p: the average is of about the last 1/(p + 1) of all versions."""

    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""
        return ServerOptimizer(self._init, self._update)

    def _init(self, dim: int) -> Averaging:
        return Averaging(0, np.zeros(dim, np.float32))

    def _update(
        self, exact_D: Vector, agg_D: Vector, state: Averaging
    ) -> tuple[Vector, Averaging]:
        part = np.float32(1 - self.beta)  # of z in X
        share = np.float32((self.power + 1) / (state.steps + self.power + 1))
        ahead_D, moved_D = state.ahead_D, agg_D
        for at in range(0, len(moved_D), BLOCK):  # no array more of the model's size
            block = slice(at, at + BLOCK)
            ahead_B, agg_B = ahead_D[block], agg_D[block]
            average_B = exact_D[block] - part * ahead_B
            ahead_B -= np.float32(self.lr) * agg_B
            caught_up_B = share * ahead_B
            average_B += caught_up_B
            ahead_B -= caught_up_B
            average_B += np.multiply(part, ahead_B, out=caught_up_B)
            moved_D[block] = average_B
        return moved_D, Averaging(state.steps + 1, ahead_D)
