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
model, and publishes their mean. A momentum of the local steps stays with the model from
task to task, as in the authors' code, and does not depend on verdicts.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.arrays import array_namespace, resize
from fedcore.clients._sgd import SGDConfig
from fedcore.clients.base import ClientAlgorithm, TakeSteps, Trained
from fedcore.config import Roles
from fedcore.typing import Array, Counts, State, Vector


class OverlapLocalSGD(SGDConfig):
    """Local SGD on a model of the client's own, which is pulled to the public one."""

    kind: Literal["overlap_local_sgd"] = "overlap_local_sgd"
    alpha: float = Field(default=0.6, ge=0, lt=1)
    """α, the share of the way to the public model that a client's own goes back."""
    keep_momentum: bool = True
    """Keep the momentum buffer, as the authors do."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own begins with the public model."""
        return False

    @property
    def overlaps(self) -> bool:
        """True: the steps of a task begin with the client's own model."""
        return True

    @property
    def mixes_tasks(self) -> bool:
        """True: the client's own model holds steps of earlier tasks."""
        return True

    @property
    def counts_updates(self) -> bool:
        """True: a discarded update is taken out of the client's own model."""
        return True

    def fits(self, roles: Roles) -> None:
        """Refuses what would count updates twice, or size a task that has begun.

        Raises:
            ValueError: the uplink has a memory, or a controller is at the server.
        """
        if roles.uplink.holds != "nothing":
            inner = getattr(roles.uplink, "inner", roles.uplink)
            raise ValueError(
                f"client: overlap_local_sgd needs an uplink without memory, and "
                f"{roles.uplink.kind} has one: what a message leaves out remains in "
                f"the client's own model already; name the inner compressor alone "
                f"({inner.kind})"
            )
        for controller in roles.controllers:
            if controller.is_at_server:
                raise ValueError(
                    "client: overlap_local_sgd takes the steps of a task before the "
                    f"server has sized it, so controller {controller.kind} would have "
                    "them taken again; leave it out, or take client local_sgd"
                )

    def take_back(self, kept: State, gone_D: Vector) -> State:
        """Returns the client's model without a lost update."""
        if kept is None:
            return None
        dim = gone_D.shape[-1]
        return np.concatenate([kept[:dim] + gone_D, kept[dim:]])

    def fork_state(self, kept: State) -> State:
        """Forgets the client's model, which holds updates of another history."""
        return None

    def build(self) -> ClientAlgorithm:
        """Returns the algorithm that these settings describe.

        What a client keeps is its model (D,), the velocity (D,) where one is kept, and
        a 1 that says that it has a model.
        """
        return ClientAlgorithm(self._plan, self._run, self._meet)

    @model_validator(mode="after")
    def _steps_do_not_depend_on_the_version(self) -> Self:
        if self.at(1) is not self:
            raise ValueError(
                "overlap_local_sgd needs a constant learning rate: its steps are taken "
                "before their version is known"
            )
        return self

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        xp, dim = array_namespace(start_D), start_D.shape[-1]
        own_D, velocity_D = start_D, None
        if state is not None:  # zeros in rows of a stack that have no model yet
            own_D = xp.where(state[..., -1:] > 0, state[..., :dim], start_D)
            velocity_D = resize(state[..., dim:-1], dim)
        trained = super()._run(own_D, steps, take, velocity_D)
        kept = [own_D - trained.delta_D, xp.ones_like(start_D[..., :1])]
        if trained.state is not None:
            kept.insert(1, trained.state)
        return trained._replace(state=xp.concat(kept, axis=-1))

    def _meet(self, public_D: Array, state: State) -> tuple[Array, State]:
        xp, dim = array_namespace(public_D), public_D.shape[-1]
        delta_D = np.float32(1 - self.alpha).item() * (public_D - state[..., :dim])
        return delta_D, xp.concat([public_D - delta_D, state[..., dim:]], axis=-1)
