"""FedDyn: synchronous rounds whose clients are regularised anew for each task.

Acar et al., ICLR 2021, Algorithm 1. Its halves are the client algorithm
(:mod:`fedcore.clients.fed_dyn`) and the server optimizer
(:mod:`fedcore.server_optimizers.fed_dyn`).
"""

from typing import ClassVar, Literal

from fedcore import clients, server_optimizers
from fedcore.clients import AnyClientAlgorithm
from fedcore.recipes.base import SynchronousConfig
from fedcore.server_optimizers import AnyServerOptimizer


class FedDyn(SynchronousConfig):
    """Synchronous, for clients that differ and take many local steps."""

    paper: ClassVar[str] = "Acar et al., ICLR 2021"
    kind: Literal["fed_dyn"] = "fed_dyn"
    client: AnyClientAlgorithm = clients.FedDyn()
    server: AnyServerOptimizer = server_optimizers.FedDyn()
