"""FedAdam: v ← β₂·v + (1 - β₂)·Δ² (Reddi et al., ICLR 2021, Algorithm 2)."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.server_optimizers._fed_opt import FedOptConfig
from fedcore.typing import Vector


class Adam(FedOptConfig):
    """Server Adam, without bias correction."""

    kind: Literal["adam"] = "adam"
    beta_2: float = Field(default=0.99, ge=0, lt=1)
    """β₂."""

    def second_moment(self, v_D: Vector, square_D: Vector) -> Vector:
        """Returns the new v."""
        beta_2 = np.float32(self.beta_2)
        return beta_2 * v_D + (np.float32(1) - beta_2) * square_D
