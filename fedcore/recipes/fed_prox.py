"""FedProx: FedAvg whose clients are pulled back to the model that they started from.

Li et al., MLSys 2020, Algorithm 2 (:mod:`fedcore.clients.fed_prox`).
The paper draws clients by their share of the samples and averages their models plainly;
this recipe draws them alike and weighs by samples, as FedAvg does.
"""

from typing import ClassVar, Literal

from fedcore import clients
from fedcore.clients import AnyClientAlgorithm
from fedcore.recipes.base import SynchronousConfig


class FedProx(SynchronousConfig):
    """Synchronous, for clients that differ in their data and in their work."""

    paper: ClassVar[str] = "Li et al., MLSys 2020"
    kind: Literal["fed_prox"] = "fed_prox"
    weigh_by: Literal["updates", "samples"] = "samples"
    client: AnyClientAlgorithm = clients.FedProx()
