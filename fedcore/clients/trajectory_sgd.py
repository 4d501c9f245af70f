"""Trajectory-regularised SGD (TRSGD): local SGD in short inner loops.

Zhang, Qu, Chen, Metaxas, "Taming the Noisy Gradient: Train Deep Neural Networks with
Small Batch Sizes", IJCAI 2019; the defaults are those of the authors' code
(huiqu18/TRAlgorithm, options.py). With S = 1 and no momentum it is local SGD.
"""

from typing import Literal

from pydantic import Field

from fedcore.clients._sgd import SGDConfig
from fedcore.clients._trajectory import TrajectoryConfig


class TrajectorySGD(TrajectoryConfig, SGDConfig):
    """SGD for small batches, pulled back to where its inner loop began."""

    kind: Literal["trajectory_sgd"] = "trajectory_sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """μ."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """Adds this times w to the gradient."""
