"""The frame of local minibatch SGD, which its variants fill."""

from pydantic import Field, model_validator

from fedcore.arrays import array_namespace
from fedcore.clients.base import (
    ClientAlgorithm,
    ClientAlgorithmConfig,
    Gradient,
    Plan,
    Trained,
    mean_loss,
    shuffled_batches,
)
from fedcore.rng import Key
from fedcore.typing import Array


class SGDConfig(ClientAlgorithmConfig):
    """What the variants of local SGD have in common."""

    lr: float = Field(default=0.1, gt=0)
    """Learning rate."""
    steps: int | None = Field(default=None, ge=1)
    """Local steps; give steps or epochs."""
    epochs: int | None = Field(default=None, ge=1)
    """Passes over the client's data; 1 if neither is given."""
    batch: int = Field(default=16, ge=1)
    """Samples a step; a client with fewer uses all that it has."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """μ."""
    keep_momentum: bool = False
    """Keep the momentum buffer from task to task."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Adds this times w to the gradient."""

    @model_validator(mode="after")
    def _one_length(self) -> "SGDConfig":
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give steps or epochs, not both")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether an own training loop can stand in for it."""
        return not (self.momentum or self.weight_decay)

    def step_count(self, samples: int, work: float = 1.0) -> int:
        """How many steps a client with so many samples takes."""
        per_epoch = -(-samples // min(self.batch, samples))
        full = self.steps if self.steps is not None else (self.epochs or 1) * per_epoch
        return max(1, round(full * work))

    def build(self) -> ClientAlgorithm:
        """The algorithm."""
        return ClientAlgorithm(lambda dim: None, self._plan, self._run)

    def _plan(self, samples: int, key: Key, work: float) -> Plan:
        return shuffled_batches(
            samples, self.batch, self.step_count(samples, work), key
        )

    def correction(self, w_D: Array, start_D: Array) -> Array | None:
        """What is added to the gradient; None for nothing."""
        return self.weight_decay * w_D if self.weight_decay else None

    def _run(
        self, start_D: Array, steps: int, gradient: Gradient, state: Array | None
    ) -> Trained:
        xp = array_namespace(start_D)
        w_D = xp.asarray(start_D, copy=True)
        v_D = xp.zeros_like(w_D) if state is None else xp.asarray(state, copy=True)
        losses = []
        for step in range(steps):
            loss, g_D = gradient(w_D, step)
            losses.append(loss)
            extra_D = self.correction(w_D, start_D)
            if extra_D is not None:
                g_D += extra_D
            if self.momentum:
                v_D *= self.momentum
                v_D += g_D
                g_D = v_D
            w_D -= self.lr * g_D
        kept = v_D if self.momentum and self.keep_momentum else None
        return Trained(w_D, mean_loss(losses), kept)
