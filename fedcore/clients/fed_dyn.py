"""FedDyn: local SGD whose loss is regularised anew for each task.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated Learning Based on
Dynamic Regularization", ICLR 2021, arXiv 2111.04263, Algorithm 1: a client minimises
L_k(w) - <g_k, w> + α/2·‖w - W‖², and then g_k ← g_k - α(w - W). Where all have
converged, each client's own optimum is that of all. The server's half is the server
optimizer ``fed_dyn``, which moves the model by the sum of all updates as well.

A step is w ← w - η(g - g_k + α(w - W)), so that it is SGD with a drift and a pull. The
paper minimises exactly; we take as many steps as the recipe says. The client keeps
Σ Δ = g_k/α, so that α may change. An update that is gone for good is taken out of it,
and one that is rejected comes again through the error memory, so the sums of clients
and server agree, but for updates on their way.

Compared with the authors' code (github.com/alpemreacar/FedDyn, ``train_FedDyn``); the
paper's text was not at hand. That code divides α by a client's weight, which follows
its samples; here α is the same for all.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fedcore.clients._descent import Descent
from fedcore.clients._sgd import SGDConfig
from fedcore.clients.base import TakeSteps, Trained
from fedcore.config import Roles
from fedcore.typing import Array, Counts, State, Vector


class FedDyn(SGDConfig):
    """Local SGD with the dynamic regulariser of its client."""

    shared: ClassVar[frozenset[str]] = SGDConfig.shared | {"alpha"}

    kind: Literal["fed_dyn"] = "fed_dyn"
    alpha: float = Field(default=0.1, gt=0)
    """α, the strength of the regulariser. The paper takes 0.001 to 0.1."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own cannot add its correction."""
        return False

    @property
    def counts_updates(self) -> bool:
        """True: g_k is the sum of the client's updates."""
        return True

    def fits(self, roles: Roles) -> None:
        """Checks that the server adds up the same updates as the clients.

        Raises:
            ValueError: it does not, or some would count for more than others.
        """
        needed = {
            "server": "fed_dyn",
            "staleness": "constant",
            "aggregator": "weighted_mean",
        }
        for name, kind in needed.items():
            if getattr(roles, name).kind != kind:
                raise ValueError(
                    f"client: fed_dyn needs {name} {kind}: the server adds up the "
                    f"updates that clients do, which {getattr(roles, name).kind} "
                    "does not"
                )
        if roles.weigh_by != "updates":
            raise ValueError(
                "client: fed_dyn needs weigh_by updates: clients and server add up "
                "the same updates"
            )

    def take_back(self, kept: State, gone_D: Vector) -> State:
        """Returns Σ Δ without an update."""
        return -gone_D if kept is None else kept - gone_D

    def rule(self) -> Descent:
        """Returns the rule of SGD with the pull α·(w - W)."""
        return super().rule()._replace(pull=self.alpha)

    @model_validator(mode="after")
    def _keeps_one_vector(self) -> "FedDyn":
        if self.keep_momentum:
            raise ValueError("fed_dyn keeps no momentum from task to task")
        return self

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        rule = self.rule()
        if state is None:
            taken = take(start_D, rule)
            return Trained(taken.delta_D, taken.loss, taken.delta_D * 1)
        taken = take(start_D, rule._replace(drift_D=state * np.float32(-self.alpha)))
        return Trained(taken.delta_D, taken.loss, state + taken.delta_D)
