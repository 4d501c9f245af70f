"""FedAdam: FedAvg with Adam at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan, "Adaptive Federated
Optimization", ICLR 2021, arXiv 2003.00295, Algorithm 2
(:mod:`fedcore.server_optimizers.adam`). Updates count by their samples.
"""

from typing import ClassVar, Literal

from fedcore.recipes.base import SynchronousConfig
from fedcore.server_optimizers import Adam, AnyServerOptimizer


class FedAdam(SynchronousConfig):
    """Synchronous, with a rate of its own for each value of the model."""

    paper: ClassVar[str] = "Reddi et al., ICLR 2021"
    kind: Literal["fed_adam"] = "fed_adam"
    weigh_by: Literal["updates", "samples"] = "samples"
    server: AnyServerOptimizer = Adam()
