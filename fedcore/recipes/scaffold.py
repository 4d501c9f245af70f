"""SCAFFOLD: synchronous rounds of local SGD that is corrected by control variates.

Karimireddy et al., ICML 2020, Algorithm 1: the model moves by the plain mean of the
clients' updates. The control variates are the client algorithm's
(:mod:`fedcore.clients.scaffold`).
"""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from fedcore import clients
from fedcore.clients import AnyClientAlgorithm
from fedcore.recipes.base import SynchronousConfig


class Scaffold(SynchronousConfig):
    """Synchronous, for clients that differ and take many local steps."""

    paper: ClassVar[str] = "Karimireddy et al., ICML 2020"
    kind: Literal["scaffold"] = "scaffold"
    client: AnyClientAlgorithm = clients.Scaffold()

    @model_validator(mode="after")
    def _corrects_steps(self) -> Self:
        """Refuses other client algorithms, which would make it federated averaging."""
        if not isinstance(self.client, clients.Scaffold):
            raise ValueError(
                f"client: recipe scaffold needs client scaffold, not "
                f"{self.client.kind}; take client: {{kind: scaffold}}, or the recipe "
                "fed_avg"
            )
        return self
