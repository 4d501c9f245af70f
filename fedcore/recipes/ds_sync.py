"""DS-Sync: synchronous rounds in groups whose members change every round.

Wang et al., IEEE INFOCOM 2022. The client's half is :mod:`fedcore.clients.ds_sync`, and
the server averages by group (:mod:`fedcore.aggregators.ds_sync`). The groups are those
of one server: all messages pass it, so it is the method's accuracy that shows here, and
not the time that it saves where workers send to each other.
"""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from fedcore import aggregators, clients
from fedcore.aggregators import AnyAggregator
from fedcore.clients import AnyClientAlgorithm
from fedcore.recipes.base import SynchronousConfig


class DSSync(SynchronousConfig):
    """Synchronous, in groups of clients that are dealt out anew for every round."""

    paper: ClassVar[str] = "Wang et al., arXiv 2007.03298"
    kind: Literal["ds_sync"] = "ds_sync"
    client: AnyClientAlgorithm = clients.DSSync()
    aggregator: AnyAggregator = aggregators.DSSync()

    @model_validator(mode="after")
    def _has_groups(self) -> Self:
        """Refuses other client algorithms, which would make it federated averaging."""
        if not isinstance(self.client, clients.DSSync):
            raise ValueError(
                f"client: recipe ds_sync needs client ds_sync, not {self.client.kind}; "
                "take client: {kind: ds_sync}, or the recipe fed_avg"
            )
        return self
