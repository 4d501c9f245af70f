"""FedAdagrad: FedAvg with Adagrad at the server.

Reddi et al., ICLR 2021, Algorithm 2 (:mod:`fedcore.server_optimizers.adagrad`). β₁ = 0,
so that the server has no momentum, is quoted from memory of the paper's experiments;
its text was not within reach.
"""

from typing import ClassVar, Literal

from fedcore.recipes.base import SynchronousConfig
from fedcore.server_optimizers import Adagrad, AnyServerOptimizer


class FedAdagrad(SynchronousConfig):
    """Synchronous, with a rate of its own for each value of the model."""

    paper: ClassVar[str] = "Reddi et al., ICLR 2021"
    kind: Literal["fed_adagrad"] = "fed_adagrad"
    weigh_by: Literal["updates", "samples"] = "samples"
    server: AnyServerOptimizer = Adagrad(beta_1=0)
