"""Trajectory-regularised Adam (TRAdam): local Adam in short inner loops.

Zhang, Qu, Chen, Metaxas, "Taming the Noisy Gradient: Train Deep Neural Networks with
Small Batch Sizes", IJCAI 2019; the defaults are those of the authors' code
(huiqu18/TRAlgorithm, options.py). That code adds ε before it corrects the bias, as
torch.optim.Adam of its time did; here it is added afterwards, as in Adam's Algorithm 1.
"""

from typing import Literal

from pydantic import Field

from fedcore.clients._adam import AdamConfig
from fedcore.clients._trajectory import TrajectoryConfig


class TrajectoryAdam(TrajectoryConfig, AdamConfig):
    """Adam for small batches, pulled back to where its inner loop began."""

    kind: Literal["trajectory_adam"] = "trajectory_adam"
    lr: float = Field(default=0.001, gt=0)
    """Learning rate."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """Adds this times w to the gradient."""
