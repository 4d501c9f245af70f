"""FedProx: local SGD on the loss plus μ/2·‖w - w_global‖².

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in
Heterogeneous Networks", MLSys 2020, arXiv 1812.06127, Algorithm 2. With μ = 0 it is
local SGD.
"""

from typing import Literal

from pydantic import Field

from fedcore.clients._descent import Descent
from fedcore.clients._sgd import SGDConfig


class FedProx(SGDConfig):
    """Local SGD that is pulled back to the model it started from."""

    kind: Literal["fed_prox"] = "fed_prox"
    mu: float = Field(default=0.01, ge=0)
    """μ, the strength of the pull."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own cannot add its correction."""
        return False

    def rule(self) -> Descent:
        """Returns the rule of SGD with the pull μ·(w - w_global)."""
        return super().rule()._replace(pull=self.mu)
