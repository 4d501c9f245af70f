"""Error feedback: what a message leaves out is remembered and sent later.

Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy
et al., "Error Feedback Fixes SignSGD", ICML 2019, Algorithm 2 (the learning rate
is inside the memory): u = e + Δ, q = C(u), e ← u - q. Here the new memory is
returned beside the message, and the participant commits it with the server's
verdict only.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.arrays import LARGE, norms
from fedcore.compressors._memory import MemoryConfig
from fedcore.config import Roles
from fedcore.payloads import Payload, add, decode, support
from fedcore.typing import Array


class ErrorFeedback(MemoryConfig):
    """A memory of all that the inner compressor left out."""

    kind: Literal["error_feedback"] = "error_feedback"
    cap: float = Field(default=30.0, gt=0)
    """The memory may be at most this many times the norm of the new update."""
    own_view: bool = False
    """Begin the local steps at W - e, as Gaia's sites do: a client sees all of its own
    changes at once, also those that it has not sent. Otherwise they begin at W."""

    @property
    def trains_on_own_view(self) -> bool:
        """As ``own_view`` says."""
        return self.own_view

    def fits(self, roles: Roles) -> None:
        """Checks that what a client has not sent is a change of the model alone.

        Raises:
            ValueError: companions travel beside the model.
        """
        if self.own_view and roles.client.companions:
            raise ValueError(
                f"uplink: own_view is for changes of the model alone, and client "
                f"{roles.client.kind} sends {', '.join(roles.client.companions)} "
                "beside it; take own_view: false"
            )

    def limit(self, memory: Array, delta: Array) -> Array:
        """Returns the memory, scaled down to ``cap`` times the norm of the update.

        An empty round, whose update is zero, leaves the memory alone.
        """
        size, most = norms(memory), self.cap * norms(delta)
        is_over = (most > 0) & (size > most)
        if not is_over.any():
            return memory
        share = np.divide(most, size, out=np.ones(size.shape), where=is_over)
        limited: Array = memory * share.astype(np.float32)[..., None]
        return limited

    def keep(self, memory_D: Array, corrected_D: Array, sent: Payload) -> Array:
        """Returns E ← u - q."""
        if (
            corrected_D.ndim == 1
            and len(corrected_D) > LARGE
            and support(sent) is not None
        ):
            add(sent, corrected_D, -1.0)  # no copy of either
            return corrected_D
        return corrected_D - decode(sent)
