"""The contract of server optimisers: how the aggregate moves the exact model.

The aggregate is an update in parameter units; subtracting it moves downhill, so
the pseudo-gradient of FedOpt is Δ = -agg. Only elementwise IEEE operations
(+ - × ÷ √) are used: a replay is exact on any processor.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.typing import State, Vector

Update = Callable[[Vector, Vector, State], tuple[Vector, State]]


class ServerOptimizer(NamedTuple):
    """Moves the exact model."""

    init: Callable[[int], State]
    """The state for D values before the first step."""
    update: Update
    """The new model (D,) and state, given X, the aggregate and the state. It owns the
    aggregate and the state, and may write into them; X may be in use elsewhere."""
    of_share: Callable[[float, float], Update] | None = None
    """The update of a version that is made of a share of the clients, given the share
    and the clients that had joined when the version before was made, as a share of
    those that have joined now. None: it is the same for all."""


class ServerOptimizerConfig(Method):
    """Settings of a server optimiser."""

    role: ClassVar[str] = "server optimizer"

    def keeps_state(self, other: "ServerOptimizerConfig") -> bool:
        """Returns whether it can continue with the state of other settings."""
        return self == other

    @abstractmethod
    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""


AnyServerOptimizer = Annotated[ServerOptimizerConfig, OneOf()]
