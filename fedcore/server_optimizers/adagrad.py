"""FedAdagrad: v ← v + Δ² (Reddi et al., ICLR 2021, Algorithm 2)."""

from typing import Literal

from fedcore.server_optimizers._fed_opt import FedOptConfig
from fedcore.typing import Vector


class Adagrad(FedOptConfig):
    """Server Adagrad."""

    kind: Literal["adagrad"] = "adagrad"

    def second_moment(self, v_D: Vector, square_D: Vector) -> Vector:
        """Returns the new v."""
        return v_D + square_D
