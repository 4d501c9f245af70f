"""Ditto: a personal model beside the public one, held near it.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization", ICML 2021, arXiv 2012.04221, Algorithm 1: a client trains the public
model as before, and after that its own model v by v ← v - η·(∇F(v) + λ·(v - w)), where
w is the public model that it was given. v begins as the first w that the client gets,
never leaves it, and does not depend on verdicts. With λ = 0 it is local training
alone; the larger λ is, the nearer v stays to w.

v takes as many steps as the public model, on the same batches and at the same rate, as
in the authors' program (github.com/litian96/ditto); the paper lets them differ. A step
costs two gradients, and a client keeps one more model.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedcore.arrays import array_namespace
from fedcore.clients._sgd import SGDConfig
from fedcore.clients.base import TakeSteps, Trained
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.typing import Array, Counts, State, Vector


class Ditto(SGDConfig):
    """Local SGD, and a personal model that is pulled to the public one."""

    kind: Literal["ditto"] = "ditto"
    pull: float = Field(default=0.1, ge=0)
    """λ, how strongly the personal model is pulled to the public one."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own trains one model."""
        return False

    def personal(self, kept: State) -> Vector | None:
        """Returns v; None before the first task."""
        return None if kept is None else kept[:-1]

    def check(self, model: ParamSpec) -> None:
        """Refuses a model of which a part is the client's own already.

        Raises:
            ConfigError: it has local tensors.
        """
        super().check(model)
        if model.local:
            raise ConfigError(
                "client: ditto keeps a whole personal model, so no tensor can stay on "
                f"the client by itself; the workload says that {model.local[0].name!r} "
                "does"
            )

    @model_validator(mode="after")
    def _forgets_momentum(self) -> Self:
        if self.keep_momentum:
            raise ValueError(
                "client: ditto keeps its personal model, and no momentum, from task to "
                "task"
            )
        return self

    @model_validator(mode="after")
    def _stays_near(self) -> Self:
        """Refuses a pull with which v goes ever farther from w, on any data."""
        change, limit = self.lr * self.pull, 2 * (1 + self.momentum)
        if change >= limit:
            raise ValueError(
                f"client: lr {self.lr:g} times pull {self.pull:g} is {change:g}, and "
                f"from {limit:g} on each step of ditto takes the personal model "
                "farther from the public one; lower pull or lr"
            )
        return self

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        xp, rule = array_namespace(start_D), self.rule()
        taken = take(start_D, rule)
        # A stack gives zeros to clients that have kept nothing: the last value is 1
        # behind a model.
        one = xp.ones_like(start_D[..., :1])
        own_D = start_D
        if state is not None:
            own_D = xp.where(state[..., -1:] > 0, state[..., :-1], start_D)
        # λ·(v - w) as a decay of v and a constant drift, which every loop can take.
        towards = rule._replace(
            weight_decay=self.weight_decay + self.pull, drift_D=-self.pull * start_D
        )
        own_D = own_D - take(own_D, towards).delta_D
        return Trained(taken.delta_D, taken.loss, xp.concat([own_D, one], axis=-1))
