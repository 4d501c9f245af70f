"""The base of trajectory-regularised SGD and Adam.

Zhang, Qu, Chen, Metaxas, "Taming the Noisy Gradient: Train Deep Neural Networks with
Small Batch Sizes", IJCAI 2019, and the authors' code (huiqu18/TRAlgorithm): in an inner
loop of S steps the gradient of λ·‖w - w_old‖² is added, where w_old is the model before
the loop, and its k-th step, from 0, has the rate lr/(k + 1). λ is a constant over the
learning rate of the moment, so it grows as a schedule lowers the rate.

A task begins with a new inner loop; in the authors' code, which knows no tasks, the
loop runs on from epoch to epoch.
"""

from typing import Self

from pydantic import Field

from fedcore.clients._descent import Descent
from fedcore.clients._local import MOST, LocalConfig

LOWEST = 1e-12  # shares of lr below it make λ no larger, lest λ overflow


class TrajectoryConfig(LocalConfig):
    """Settings of the inner loop."""

    strength: float = Field(default=0.1, ge=0)
    """λ at the full learning rate."""
    inner_steps: int = Field(default=10, ge=1)
    """S, the steps of an inner loop."""
    batch: int = Field(default=8, ge=1, le=MOST)
    """Samples a step; a client with fewer uses all that it has."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own knows no inner loop."""
        return False

    def rule(self) -> Descent:
        """Returns the rule of the steps."""
        pull = 2 * self.strength
        return super().rule()._replace(pull=pull, period=self.inner_steps)

    def _scale(self, share: float) -> Self:
        update = {"strength": self.strength / max(share, LOWEST)}
        return super()._scale(share).model_copy(update=update)
