"""Overlap Local-SGD: rounds whose communication is hidden behind the next steps.

Wang, Liang, Joshi, ICASSP 2020: :mod:`fedcore.clients.overlap_local_sgd`, α = .6, and
the anchor's momentum at the server, β = .7, as in the authors' experiments.

Where clients have few classes each, ``fed_avg`` is more accurate in equal time, unless
local steps have momentum (``python -m benchmarks.claims 11``).
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
