"""The base of the variants of local minibatch SGD."""

from typing import Self

from pydantic import Field, model_validator

from fedcore.arrays import array_namespace
from fedcore.clients._descent import Descent
from fedcore.clients._local import LocalConfig
from fedcore.clients.base import TakeSteps, Trained
from fedcore.typing import Array, Counts, State


class SGDConfig(LocalConfig):
    """Settings of all variants of local SGD."""

    momentum: float = Field(default=0.0, ge=0, lt=1)
    """μ."""
    nesterov: bool = False
    """Nesterov's momentum: the step is g + μ·v in place of v."""
    keep_momentum: bool = False
    """Keep the momentum buffer from task to task."""

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether an own training loop can stand in for it."""
        return super().is_plain and not self.momentum

    @property
    def mixes_tasks(self) -> bool:
        """Whether an update holds steps of earlier tasks: the velocity is kept."""
        return self.keep_momentum

    def rule(self) -> Descent:
        """Returns the rule of the steps."""
        return super().rule()._replace(momentum=self.momentum, nesterov=self.nesterov)

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        rule, keeps = self.rule(), self.momentum > 0 and self.keep_momentum
        if keeps:
            rule = rule._replace(velocity_D=_zeros(start_D) if state is None else state)
        taken = take(start_D, rule)
        kept_D = taken.rule.velocity_D if keeps else None
        return Trained(taken.delta_D, taken.loss, kept_D)


def _zeros(like_D: Array) -> Array:
    """Zeros in one piece of memory; ``like_D`` may be a view that repeats one model."""
    xp = array_namespace(like_D)
    return xp.zeros(like_D.shape, dtype=like_D.dtype, device=like_D.device)
