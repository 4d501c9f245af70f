"""A module that a loop of another library trains, such as a Trainer's.

The library keeps its module, its optimiser and its devices. Weights are copied into the
module before a task, and out of it afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from fedcore.algorithm import Algorithm
from fedcore.errors import ConfigError, ModelError, NotStackableError, WorkloadError
from fedcore.influence.base import Curvature
from fedcore.model import FlatModel, Metrics, StackedModel
from fedcore.params import Rest, Tensors
from fedcore.participant import Trained as TaskResult
from fedcore.rng import Key
from fedcore.samples import Samples
from fedcore.typing import Vector
from fedcore.workload import (
    NO_CURVATURE,
    Client,
    LocalTask,
    Trained,
    TrainingTask,
    Workload,
    require_plain,
    train_by_loop,
    wrap_samples,
)
from fedtorch.layout import layout
from fedtorch.modules import check_module, limit_threads
from fedtorch.whole import Beside, flat_of, rest_of, spec_of


class Loop(Protocol):
    """Trains and evaluates a library's module, where it stands."""

    def fit(self, data: Any, task: TrainingTask) -> float | None:
        """Takes the steps of a task; returns the mean loss, if there is one."""

    def evaluate(self, data: Any) -> tuple[Metrics, int]:
        """Returns metrics over a data set, and its number of samples."""


class LoopedModule:
    """A library's module as a flat vector; its first values are version 0.

    Args:
        module: belongs to the library.
        loop: trains and evaluates it.
        beside: says what a checkpoint holds beside the flat vector.

    Raises:
        ModelError: it has nothing to train.
    """

    def __init__(self, module: nn.Module, loop: Loop, beside: Beside = rest_of) -> None:
        self._module, self._loop = check_module(module), loop
        sorted_ = layout(module, None, ())
        if sorted_.local:
            raise ModelError(
                f"buffer {next(iter(sorted_.local))!r} counts batches, and a loop of "
                "another library does not keep it for the client; give its layer a "
                "momentum"
            )
        self.advice = sorted_.advice
        self.local_L: Vector | None = None
        self.spec = spec_of(module, sorted_)
        self._rest = beside(module, self.spec)
        self._first_D = flat_of(module, self.spec)
        limit_threads(module)

    def initial(self, key: Key) -> Vector:
        """Returns the values that the module had at first, whatever the key."""
        return self._first_D.copy()

    def rest(self) -> Rest:
        """Returns what checkpoints hold beside the flat vector."""
        return self._rest

    def seed(self, key: Key) -> None:
        """Does nothing: the loop is told the task's seed."""

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Refuses: the loop takes its own steps."""
        raise WorkloadError("this workload has a training loop of its own, no gradient")

    def stack(self, device: str = "cpu") -> StackedModel:
        """Refuses: the loop trains one client at a time."""
        raise NotStackableError("the loop of a Trainer trains one client at a time")

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Returns what the library measures on a data set."""
        self._load(self.spec.unflatten(w_D))
        return self._loop.evaluate(data)

    def train(self, params: Tensors, data: Any, task: TrainingTask) -> Trained:
        """Has the loop train the module from these parameters."""
        self._load(params)
        loss = self._loop.fit(data, task)
        return Trained(
            self.spec.unflatten(flat_of(self._module, self.spec)), len(data), loss
        )

    def _load(self, params: Tensors) -> None:
        known = {
            **dict(self._module.named_parameters()),
            **dict(self._module.named_buffers()),
        }
        with torch.no_grad():
            for name, values in params.items():
                known[name].copy_(torch.from_numpy(np.array(values, np.float32)))


@dataclass(frozen=True, kw_only=True)
class LoopedWorkload(Workload):
    """A library's module, and data; made by :func:`latecomer.patch`.

    Args:
        model: the module as a flat vector, with its loop.
        train_data: as for ``Workload``; of its data only the length matters here.
        valid_data: the same for a client's own evaluation.
        test_data: ``test_data()`` returns the evaluator's data.
        steps: how many steps a task has; None: as many as the recipe says.
    """

    model: LoopedModule
    steps: int | None = None

    def flat(self) -> FlatModel:
        """Returns the module as a flat vector."""
        return self.model

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns data of which only the length matters."""
        return wrap_samples(data, whose)

    def fits(self, algorithm: Algorithm) -> None:
        """Checks that the client algorithm needs no gradients.

        Raises:
            ConfigError: it needs some.
        """
        require_plain(algorithm)

    def train_task(
        self, model: FlatModel, public_D: Vector, data: Any, task: LocalTask
    ) -> TaskResult:
        """Has the library's loop compute the update of one task."""
        if self.steps is not None:
            update = {"steps": self.steps, "epochs": None}
            task = task._replace(
                config=task.config.model_copy(update=update), wanted=None
            )
        return train_by_loop(self.model.train, model, public_D, data, task)

    def curvature(self, model: FlatModel) -> Curvature:
        """Refuses: the gradients of the loop's steps are not known.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(NO_CURVATURE)


def part_of(data: Any, client: Client) -> Any:
    """Returns a client's part of a data set that ``client.count`` clients share."""
    if client.count == 1:
        return data
    rows = range(client.index, len(data), client.count)
    if hasattr(data, "select"):  # of Hugging Face: its rows stay where they are
        return data.select(rows)
    from torch.utils.data import Subset

    return Subset(data, rows)


def length(data: Any) -> int:
    """Returns the number of samples of a data set, or of several by name."""
    return sum(map(len, data.values())) if isinstance(data, Mapping) else len(data)
