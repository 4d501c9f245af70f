"""FedYogi: v ← v - (1 - β₂)·Δ²·sign(v - Δ²) (Reddi et al., ICLR 2021, Algorithm 2)."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.server_optimizers._fed_opt import FedOptConfig
from fedcore.typing import Vector


class Yogi(FedOptConfig):
    """Server Yogi."""

    kind: Literal["yogi"] = "yogi"
    beta_2: float = Field(default=0.99, ge=0, lt=1)
    """β₂."""

    def second_moment(self, v_D: Vector, square_D: Vector) -> Vector:
        """Returns the new v."""
        rest = np.float32(1) - np.float32(self.beta_2)
        moved_D: Vector = v_D - rest * square_D * np.sign(v_D - square_D)
        return moved_D
