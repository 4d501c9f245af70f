"""Overlap Local-SGD: clients train on while their updates travel.

Wang, Liang, Joshi, "Overlap Local-SGD: An Algorithmic Approach to Hide Communication
Delays in Distributed SGD", ICASSP 2020, arXiv 2002.09539. Every client has a model x of
its own, which outlives its tasks, and there is one anchor z. After τ local steps, and
once the average that was begun τ steps before has arrived as z, the client pulls its
model back, x ← (1 - α)·x + α·z, and the next average begins: v ← β·v + mean(x) - z;
z ← z + v. Meanwhile the client takes its next τ steps. Compared with the authors' code
(github.com/JYWa/Overlap_Local_SGD); the paper's text was not at hand.

Here z is the public model. The client's half is in this file: the update is
Δ = z - x = (1 - α)·(z - x_end), where x_end is the model after the steps. The server's
half is server optimizer ``momentum`` with lr 1 and β, since mean(x) - z = -mean(Δ). The
steps of a task begin with the client's own x, and need no new model, so a client takes
them while its message before them travels. It sends nothing before that message was
decided on and a new model has come, so one message at most is in flight.

A client's model is its memory: what a codec leaves out of a message, and an update that
was rejected, remain in x, and 1 - α of them is in the next update. A memory in the
uplink would add them a second time, so it is refused. An update that was discarded is
taken out of x; after a restore of the server x begins anew at its model.

With α = 1 nothing would ever be sent, so α is below 1; α = 0 leaves each client its own
model, and publishes their mean.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.arrays import array_namespace
from fedcore.clients._sgd import SGDConfig
from fedcore.clients.base import ClientAlgorithm, TakeSteps, Trained
from fedcore.config import Roles
from fedcore.typing import Array, Counts, State, Vector


class OverlapLocalSGD(SGDConfig):
    """Local SGD on a model of the client's own, which is pulled to the public one."""

    kind: Literal["overlap_local_sgd"] = "overlap_local_sgd"
    alpha: float = Field(default=0.6, ge=0, lt=1)
    """α, the share of the way to the public model that a client's own goes back."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own begins with the public model."""
        return False

    @property
    def overlaps(self) -> bool:
        """True: the steps of a task begin with the client's own model."""
        return True

    @property
    def counts_updates(self) -> bool:
        """True: a discarded update is taken out of the client's own model."""
        return True

    def fits(self, roles: Roles) -> None:
        """Refuses uplinks with a memory, beside which updates would count twice.

        Raises:
            ValueError: the uplink has one.
        """
        if roles.uplink.holds != "nothing":
            inner = getattr(roles.uplink, "inner", roles.uplink)
            raise ValueError(
                f"client: overlap_local_sgd needs an uplink without memory, and "
                f"{roles.uplink.kind} has one: what a message leaves out remains in "
                f"the client's own model already; name the inner compressor alone "
                f"({inner.kind})"
            )

    def take_back(self, kept: State, gone_D: Vector) -> State:
        """Returns the client's model without a lost update."""
        return kept if kept is None else _state(kept[:-1] + gone_D)

    def fork_state(self, kept: State) -> State:
        """Forgets the client's model, which holds updates of another history."""
        return None

    def build(self) -> ClientAlgorithm:
        """Returns the algorithm that these settings describe."""
        return ClientAlgorithm(self._plan, self._run, self._meet)

    @model_validator(mode="after")
    def _steps_do_not_depend_on_the_version(self) -> Self:
        if self.at(1) is not self:
            raise ValueError(
                "overlap_local_sgd needs a constant learning rate: its steps are taken "
                "before their version is known"
            )
        if self.keep_momentum:
            raise ValueError(
                "overlap_local_sgd keeps a model from task to task, and no momentum; "
                "leave keep_momentum out"
            )
        return self

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        xp, own_D = array_namespace(start_D), start_D
        if state is not None:  # zeros in rows of a stack that have no model yet
            own_D = xp.where(state[..., -1:] > 0, state[..., :-1], start_D)
        taken = take(own_D, self.rule())
        return Trained(taken.delta_D, taken.loss, _state(own_D - taken.delta_D))

    def _meet(self, public_D: Array, state: State) -> tuple[Array, State]:
        delta_D = np.float32(1 - self.alpha).item() * (public_D - state[..., :-1])
        return delta_D, _state(public_D - delta_D)


def _state(own_D: Array) -> Array:
    """Returns what a client keeps: its model, and a 1 that says that it has one."""
    xp = array_namespace(own_D)
    return xp.concat([own_D, xp.ones_like(own_D[..., :1])], axis=-1)
