"""One task by the recipe's client algorithm, with a model's gradients."""

from collections.abc import Callable
from typing import cast

import numpy as np

from fedcore.clients import (
    Priority,
    Sampling,
    WithLocal,
    batches_of_one,
    by_gradients,
    join_kept,
    split_kept,
)
from fedcore.model import NO_ROOM, FlatModel, HasRoom, WeightedGradient
from fedcore.participant import Trained
from fedcore.rng import Key, seeds
from fedcore.samples import LabelsSeen, Reading, Samples, is_in_memory
from fedcore.typing import Array, Indices, State, Vector
from fedcore.workload.task import LocalTask


def run_client_algorithm(
    model: FlatModel,
    public_D: Vector,
    samples: Samples,
    task: LocalTask,
    weighted: Callable[[FlatModel, Priority], WeightedGradient],
) -> Trained:
    """Returns the update of a task, Δ = W - w.

    Args:
        model: computes the gradients.
        public_D: the model that the task begins with, shape (D,).
        samples: the client's.
        task: what else the update depends on.
        weighted: returns the gradients of samples that have weights, for algorithms
            that draw them (:class:`fedcore.clients.Sampling`).
    """
    algorithm = task.config.build()
    steps = task.step_count(len(samples))
    kept, local_L = split_kept(task.kept, model.local_L)
    batches: _Planned | _Sampled
    if algorithm.sampling is None:
        plan = batches_of_one(algorithm, len(samples), steps, task.key)
        batches = _Planned(model, samples, plan)
    else:
        sampling = algorithm.sampling
        gradient = weighted(model, sampling.priority)
        batches = _Sampled(gradient, samples, sampling, task.key, kept)
        kept = None
    frozen, buffers = task.config.frozen_parts(model.spec), model.spec.in_training
    room = cast(HasRoom, model) if hasattr(model, "room_D") else NO_ROOM
    take = by_gradients(
        batches.gradient, steps, room.room_D, buffers, frozen, room.difference
    )
    if local_L is not None:
        take = with_local = WithLocal(take, local_L)
    trained = algorithm.run(public_D, steps, take, kept)
    room.free()
    if isinstance(batches, _Sampled):
        trained = trained._replace(state=batches.state)
    if local_L is not None:
        trained = trained._replace(state=join_kept(trained.state, with_local.local_L))
    used = np.concatenate(batches.used)
    counts = None
    if task.counts_labels:
        counts = samples.label_counts(used)
        counts = batches.labels.of(0) if counts is None else counts
    return Trained(
        delta_D=trained.delta_D,
        samples=len(samples),
        steps=steps,
        loss=float(trained.loss),
        counts=counts,
        kept=trained.state,
        used=len(used),
    )


class _Planned:
    """The gradients of batches that follow from the task's seed."""

    def __init__(self, model: FlatModel, samples: Samples, plan: list[Indices]) -> None:
        self._model, self._samples, self.used = model, samples, plan
        self._reading, self.labels = None, LabelsSeen(1)
        if not is_in_memory(samples):
            self._reading = Reading([[(samples, rows)] for rows in plan])
            self.labels = self._reading.labels

    def gradient(self, w_D: Array, step: int) -> tuple[Array, Array]:
        if self._reading is None:
            return self._model.gradient(w_D, *self._samples.batch(self.used[step]))
        (batch,) = self._reading.of(step)
        return self._model.gradient(w_D, *batch)


class _Sampled:
    """The gradients of batches that are drawn by those of the steps before."""

    def __init__(
        self,
        weighted: WeightedGradient,
        samples: Samples,
        sampling: Sampling,
        key: Key,
        kept: State,
    ) -> None:
        self._weighted, self._samples, self._sampling = weighted, samples, sampling
        self._seed = seeds(key)
        self.state = sampling.init(len(samples), kept)
        self.used: list[Indices] = []
        self._is_in_memory, self.labels = is_in_memory(samples), LabelsSeen(1)

    def gradient(self, w_D: Array, step: int) -> tuple[Array, Array]:
        rows_B, weights_B = self._sampling.draw(self.state, self._seed, step)
        x, y = self._samples.batch(rows_B)
        if not self._is_in_memory:
            self.labels.add(0, y)
        found = self._weighted(w_D, x, y, weights_B)
        self.state = self._sampling.learn(self.state, rows_B, found.norms_B)
        self.used.append(rows_B)
        return found.loss, found.gradient_D
