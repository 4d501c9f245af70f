"""Local AdamW: Adam with a weight decay that is not divided by the mean of squares.

Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, arXiv
1711.05101, Algorithm 2, where lr scales the decay as in torch.optim.AdamW. What it
keeps is what local Adam keeps.
"""

from typing import Literal

from pydantic import Field

from fedcore.clients._adam import AdamConfig
from fedcore.clients._descent import Descent


class LocalAdamW(AdamConfig):
    """AdamW for a number of steps or of passes over the data."""

    kind: Literal["local_adam_w"] = "local_adam_w"
    weight_decay: float = Field(default=0.01, ge=0)
    """w loses lr times this times w at each step."""

    def rule(self) -> Descent:
        """Returns the rule of the steps."""
        rule = super().rule()
        assert rule.adaptive is not None
        return rule._replace(adaptive=rule.adaptive._replace(decoupled=True))
