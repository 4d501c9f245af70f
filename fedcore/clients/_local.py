"""The base of all client algorithms that take local steps."""

import math
from abc import abstractmethod
from fnmatch import fnmatchcase
from typing import ClassVar, Self

from pydantic import Field, model_validator

from fedcore.clients._batches import Batches, shuffle_batches
from fedcore.clients._descent import Descent
from fedcore.clients.base import (
    MOST_STEPS,
    ClientAlgorithm,
    ClientAlgorithmConfig,
    TakeSteps,
    Trained,
)
from fedcore.errors import ConfigError
from fedcore.lr_schedules import AnyLRSchedule
from fedcore.params import ParamSpec
from fedcore.rng import Words
from fedcore.typing import Array, Counts, State

MOST = 2**31 - 1  # steps, epochs and samples of a batch, which loops in C count


class LocalConfig(ClientAlgorithmConfig):
    """Settings of local steps, by whatever rule."""

    either: ClassVar[tuple[frozenset[str], ...]] = (
        frozenset({"steps", "epochs"}),
        frozenset({"schedule", "decay"}),
    )

    lr: float = Field(default=0.1, gt=0)
    """Learning rate."""
    schedule: AnyLRSchedule | None = None
    """How the learning rate changes with the version of the model; none: not at all."""
    steps: int | None = Field(default=None, ge=1, le=MOST)
    """Local steps; give steps or epochs."""
    epochs: int | None = Field(default=None, ge=1, le=MOST)
    """Passes over the client's data; 1 if neither is given."""
    batch: int = Field(default=16, ge=1, le=MOST)
    """Samples a step; a client with fewer uses all that it has."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Adds this times w to the gradient."""
    clip_norm: float | None = Field(default=None, gt=0)
    """The largest norm of a step's gradient; a longer one is scaled down to it."""
    clip_value: float | None = Field(default=None, gt=0)
    """The largest magnitude of each value of a step's gradient, before its norm."""
    frozen: tuple[str, ...] = ()
    """Tensors that training leaves as they are, by patterns of their names such as
    ``conv*``. Their part of an update is 0, of which sparse codecs send nothing."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give steps or epochs, not both")
        return self

    def at(self, version: int) -> Self:
        """Returns the settings with the learning rate of this version."""
        if self.schedule is None:
            return self
        return self._scale(self.schedule.share(version))

    def _scale(self, share: float) -> Self:
        """Returns the settings with a share of the learning rate, and no schedule."""
        return self.model_copy(update={"lr": self.lr * share, "schedule": None})

    def check(self, model: ParamSpec) -> None:
        """Refuses a model that has no tensors of the names that are frozen.

        Raises:
            ConfigError: no tensor has such a name, or none is left to train.
        """
        self.frozen_parts(model)

    def frozen_parts(self, model: ParamSpec) -> tuple[slice, ...]:
        """Returns the parts of the model that the steps leave as they are.

        Raises:
            ConfigError: no tensor has such a name, or none is left to train.
        """
        if not self.frozen:
            return ()
        names = [tensor.name for tensor in model.tensors]
        for pattern in self.frozen:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"client.frozen: no tensor's name is like {pattern!r}; the model "
                    f"has {', '.join(names)}"
                )
        parts = [
            tensor.slice
            for tensor in model.tensors
            if any(fnmatchcase(tensor.name, pattern) for pattern in self.frozen)
        ]
        if len(parts) == len(names):
            raise ConfigError("client.frozen: no tensor is left to train")
        return tuple(parts)

    @property
    def is_plain(self) -> bool:
        """Whether an own training loop can stand in for it."""
        return not (
            self.weight_decay or self.clip_norm or self.clip_value or self.frozen
        )

    def rate(self, version: int) -> float:
        """Returns the learning rate of a version as a share of ``lr``."""
        return self.at(version).lr / self.lr

    @property
    def fixed_steps(self) -> int | None:
        """The number of steps of a whole task; None: it has epochs."""
        return self.steps

    def step_count(self, samples: int, work: float = 1.0) -> int:
        """Returns how many steps a client takes; see the base class."""
        per_epoch = -(-samples // min(self.batch, samples))
        full = self.steps if self.steps is not None else (self.epochs or 1) * per_epoch
        return min(MOST_STEPS, max(1, round(full * work)))

    def effort(self, steps: int) -> float:
        """Returns how many plain steps a task stands for; see :class:`Descent`."""
        return self.rule().effort(steps)

    def with_samples(self, wanted: int | None) -> Self:
        """Returns the settings; where a task is one step, its batch has that size."""
        if wanted is None or self.steps != 1:
            return self
        return self.model_copy(update={"batch": wanted})

    def steps_of(self, samples: int, work: float, wanted: int | None) -> int:
        """Returns how many steps a client takes; see the base class."""
        if wanted is None or self.steps == 1:
            return self.step_count(samples, work)
        return max(1, round(work * wanted / min(self.batch, samples)))

    def used_by(self, samples: int, steps: int) -> int:
        """Returns how many samples these steps use; see the base class."""
        passes, rest = divmod(steps, -(-samples // self.batch))
        return passes * samples + min(rest * self.batch, samples)

    def in_usual_steps(self, samples: int, steps: int, wanted: int | None) -> float:
        """Returns how many usual steps take as long; see the base class."""
        if wanted is None or self.steps != 1:
            return steps
        return min(wanted, samples) / min(self.batch, samples)

    def build(self) -> ClientAlgorithm:
        """Builds the algorithm."""
        return ClientAlgorithm(self._plan, self._run)

    def rule(self) -> Descent:
        """Returns the rule of the steps."""
        return Descent(
            self.lr,
            weight_decay=self.weight_decay,
            clip_norm=math.inf if self.clip_norm is None else self.clip_norm,
            clip_value=math.inf if self.clip_value is None else self.clip_value,
        )

    def _plan(self, samples_N: Counts, steps_N: Counts, seeds_N: Words) -> Batches:
        return shuffle_batches(samples_N, steps_N, seeds_N, self.batch)

    @abstractmethod
    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        """Trains; see :class:`fedcore.clients.base.Run`."""
