"""Many tasks at once: the updates of a stack of clients.

A task's result depends only on its model, its client's samples, its key and the
settings, so tasks are computed together whenever that is convenient. The batches are
those that each client would draw by itself, and the arithmetic is that of
:mod:`fedcore.clients` along the last axis: a stack equals its clients one by one, up
to the order in which the gradients of a batch are summed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedcore.arrays import array_namespace, as_numpy
from fedcore.clients import Batches, ClientAlgorithmConfig
from fedcore.pool import Pool
from fedcore.rng import Key, seeds
from fedcore.typing import Array, Counts, Indices, State, Vector
from fedcore.workload import StackedModel


class StackedTask(NamedTuple):
    """One client's task."""

    client: int  # its place in the pool
    key: Key
    base: int  # the version that it starts from
    steps: int
    kept: State = None


class StackedUpdates(NamedTuple):
    """What came of a stack, in the order of its tasks."""

    delta_ND: Array  # Δ = W - w
    loss_N: Array  # mean over the steps
    counts: list[Counts | None]  # labels of the steps taken
    kept: list[State]


def train_stack(
    model: StackedModel,
    pool: Pool,
    config: ClientAlgorithmConfig,
    tasks: Sequence[StackedTask],
    base_D: Array | Sequence[Array],
    *,
    count_labels: bool,
) -> StackedUpdates:
    """Trains a stack.

    Args:
        model: computes the gradients.
        pool: holds the samples of all clients of these tasks.
        config: of the client algorithm, for the version of these tasks.
        tasks: N of them.
        base_D: the public model that they all start from, or one for each.
        count_labels: whether the labels that were used are to be counted.
    """
    algorithm = config.build()
    steps_N = np.array([task.steps for task in tasks])
    order = np.argsort(-steps_N, kind="stable")
    chosen = [tasks[i] for i in order.tolist()]
    steps_N = steps_N[order]
    clients_N = np.array([task.client for task in chosen])
    samples_N = np.array([pool.size(task.client) for task in chosen])
    batches = algorithm.plan(samples_N, steps_N, seeds([task.key for task in chosen]))
    rows_NSB = pool.rows(clients_N, batches.rows_NSB)
    start_ND = _starts(base_D, order)

    def gradient(w_ND: Array, step: int) -> tuple[Array, Array]:
        live = len(w_ND)
        sizes_N = batches.sizes_NS[:live, step]
        x_NB, y_NB = pool.batch(rows_NSB[:live, step, : int(sizes_N.max())])
        return model.gradient(w_ND, x_NB, y_NB, sizes_N)

    model.seed(chosen[0].key.fold_in("model"))
    room_ND = pool.room(len(tasks), start_ND)
    trained = algorithm.run(start_ND, steps_N, gradient, _kept(chosen), room_ND)
    delta_ND = start_ND - trained.w_D
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    counts: list[Counts | None] = [None] * len(tasks)
    if count_labels:
        counts = _label_counts(pool, batches, rows_NSB, clients_N)
    places = back.tolist()
    kept = [None] * len(tasks) if trained.state is None else list(trained.state)
    same_order = places == list(range(len(places)))
    return StackedUpdates(
        delta_ND if same_order else delta_ND[back],
        as_numpy(trained.loss)[back],
        [counts[i] for i in places],
        [kept[i] for i in places],
    )


def norms(rows_ND: Array) -> np.ndarray:
    """The Euclidean norm of each row, (N,); what overflows is summed again."""
    rows_ND = as_numpy(rows_ND)
    with np.errstate(over="ignore", invalid="ignore"):
        norm_N: np.ndarray = np.sqrt(np.einsum("nd,nd->n", rows_ND, rows_ND))
    for row in np.flatnonzero(~np.isfinite(norm_N)).tolist():
        norm_N[row] = np.sqrt(np.square(rows_ND[row], dtype=np.float64).sum())
    return norm_N


def _starts(base_D: Array | Sequence[Array], order: Indices) -> Array:
    if not isinstance(base_D, Sequence):
        xp = array_namespace(base_D)
        return xp.broadcast_to(base_D, (len(order), base_D.shape[-1]))
    xp = array_namespace(base_D[0])
    return xp.stack([base_D[i] for i in order.tolist()])


def _kept(tasks: Sequence[StackedTask]) -> State:
    """What the clients kept from their tasks before, in one array."""
    first: Vector | None = next((t.kept for t in tasks if t.kept is not None), None)
    if first is None:
        return None
    xp = array_namespace(first)
    return xp.stack(
        [xp.zeros_like(first) if task.kept is None else task.kept for task in tasks]
    )


def _label_counts(
    pool: Pool, batches: Batches, rows_NSB: Indices, clients_N: Indices
) -> list[Counts | None]:
    """Of each task; whole passes are known without looking at a label."""
    counted: list[Counts | None] = []
    used_N = batches.sizes_NS.sum(axis=1)
    for place, client in enumerate(clients_N.tolist()):
        passes, rest = divmod(int(used_N[place]), pool.size(client))
        known = pool.counts(client)
        if known is not None and not rest:
            counted.append(known if passes == 1 else known * passes)
            continue
        sizes_S = batches.sizes_NS[place]
        valid = np.arange(rows_NSB.shape[-1]) < sizes_S[:, None]
        counted.append(pool.label_counts(rows_NSB[place][valid]))
    return counted
