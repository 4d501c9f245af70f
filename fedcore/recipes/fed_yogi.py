"""FedYogi: FedAvg with Yogi at the server.

Reddi et al., ICLR 2021, Algorithm 2 (:mod:`fedcore.server_optimizers.yogi`). Updates
count by their samples.
"""

from typing import ClassVar, Literal

from fedcore.recipes.base import SynchronousConfig
from fedcore.server_optimizers import AnyServerOptimizer, Yogi


class FedYogi(SynchronousConfig):
    """Synchronous, with a rate of its own for each value of the model."""

    paper: ClassVar[str] = "Reddi et al., ICLR 2021"
    kind: Literal["fed_yogi"] = "fed_yogi"
    weigh_by: Literal["updates", "samples"] = "samples"
    server: AnyServerOptimizer = Yogi()
