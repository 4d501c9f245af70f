"""One task by the recipe's client algorithm, with a model's gradients."""

import numpy as np

from fedcore.clients import WithLocal, batches_of_one, by_gradients, joined, parted
from fedcore.model import FlatModel
from fedcore.participant import Trained
from fedcore.samples import Samples
from fedcore.typing import Array, Vector
from fedcore.workload.task import LocalTask


def run_client_algorithm(
    model: FlatModel, public_D: Vector, samples: Samples, task: LocalTask
) -> Trained:
    """The update of a task, Δ = W - w.

    Args:
        model: computes the gradients.
        public_D: the model that the task begins with, shape (D,).
        samples: the client's.
        task: what else the update depends on.
    """
    algorithm = task.config.build()
    steps = task.step_count(len(samples))
    plan = batches_of_one(algorithm, len(samples), steps, task.key)

    def gradient(w_D: Array, step: int) -> tuple[Array, Array]:
        return model.gradient(w_D, *samples.batch(plan[step]))

    frozen, buffers = task.config.frozen_parts(model.spec), model.spec.in_training
    take = by_gradients(gradient, len(plan), buffers=buffers, frozen=frozen)
    kept, local_L = parted(task.kept, model.local_L)
    if local_L is not None:
        take = with_local = WithLocal(take, local_L)
    trained = algorithm.run(public_D, len(plan), take, kept)
    if local_L is not None:
        trained = trained._replace(state=joined(trained.state, with_local.local_L))
    used = np.concatenate(plan)
    return Trained(
        delta_D=trained.delta_D,
        samples=len(samples),
        steps=len(plan),
        loss=float(trained.loss),
        counts=samples.label_counts(used) if task.counts_labels else None,
        kept=trained.state,
        used=len(used),
    )
