"""Overlap Local-SGD: rounds whose communication is hidden behind the next steps.

Wang, Liang, Joshi, "Overlap Local-SGD: An Algorithmic Approach to Hide Communication
Delays in Distributed SGD", ICASSP 2020, arXiv 2002.09539, with momentum: α = .6 and
β = .7 as in the authors' experiments. The client's half is
:mod:`fedcore.clients.overlap_local_sgd`; the anchor's momentum is the server optimiser.

It saves most where transfers take as long as steps. Where each client has few classes,
the models drift apart, and ``fed_avg`` is more accurate in equal time, unless the local
steps have momentum (``python -m benchmarks.claims 11``).
"""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from fedcore.clients import AnyClientAlgorithm, OverlapLocalSGD
from fedcore.recipes.base import SynchronousConfig
from fedcore.server_optimizers import AnyServerOptimizer, Momentum


class OverlapLocalSgd(SynchronousConfig):
    """Synchronous, for links that take as long as the local steps."""

    paper: ClassVar[str] = "Wang, Liang, Joshi, ICASSP 2020"
    kind: Literal["overlap_local_sgd"] = "overlap_local_sgd"
    client: AnyClientAlgorithm = OverlapLocalSGD()
    server: AnyServerOptimizer = Momentum(lr=1.0, beta=0.7)

    @model_validator(mode="after")
    def _overlaps(self) -> Self:
        """Refuses clients that wait, which would make it federated averaging."""
        if not self.client.overlaps:
            raise ValueError(
                f"client: recipe overlap_local_sgd needs client overlap_local_sgd, not "
                f"{self.client.kind}; take client: {{kind: overlap_local_sgd}}, or the "
                "recipe fed_avg"
            )
        return self
