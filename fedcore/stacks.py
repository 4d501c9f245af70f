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
from fedcore.rng import Key, Words
from fedcore.typing import Array, Counts, Indices, State, Vector
from fedcore.workload import StackedModel


class StackedTasks(NamedTuple):
    """Tasks of N clients."""

    clients: Sequence[int]  # their places in the pool
    seeds_N: Words  # of their keys
    steps: Sequence[int]
    kept: Sequence[State]  # from the task before
    key: Key  # for what the model draws itself, in the whole stack

    def ordered(self, order: Indices) -> "StackedTasks":
        """The same in another order."""
        places = order.tolist()
        return self._replace(
            clients=[self.clients[i] for i in places],
            seeds_N=self.seeds_N[order],
            steps=[self.steps[i] for i in places],
            kept=[self.kept[i] for i in places],
        )


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
    tasks: StackedTasks,
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
    algorithm, count = config.build(), len(tasks.clients)
    steps_N = np.array(tasks.steps)
    order = None
    if count > 1 and (steps_N[1:] > steps_N[:-1]).any():  # the longest come first
        order = np.argsort(-steps_N, kind="stable")
        tasks, steps_N = tasks.ordered(order), steps_N[order]
    clients_N = np.array(tasks.clients)
    samples_N = np.array([pool.size(client) for client in tasks.clients])
    batches = algorithm.plan(samples_N, steps_N, tasks.seeds_N)
    rows_NSB = pool.rows(tasks.clients, batches.rows_NSB)
    start_ND = _starts(base_D, order, count)

    def gradient(w_ND: Array, step: int) -> tuple[Array, Array]:
        sizes_N = batches.sizes_NS[: len(w_ND), step]
        x_NB, y_NB = pool.batch(rows_NSB[: len(w_ND), step, : int(sizes_N.max())])
        return model.gradient(w_ND, x_NB, y_NB, sizes_N)

    model.seed(tasks.key)
    room_ND = pool.room(count, start_ND)
    trained = algorithm.run(start_ND, steps_N, gradient, _kept(tasks.kept), room_ND)
    delta_ND, loss_N = start_ND - trained.w_D, as_numpy(trained.loss)
    counts: list[Counts | None] = [None] * count
    if count_labels:
        counts = _label_counts(pool, batches, rows_NSB, clients_N)
    kept: list[State] = [None] * count
    if trained.state is not None:  # copies: a client's must not keep the whole stack
        xp = array_namespace(trained.state)
        kept = [xp.asarray(row, copy=True) for row in trained.state]
    if order is None:
        return StackedUpdates(delta_ND, loss_N, counts, kept)
    back = np.argsort(order)
    return StackedUpdates(
        delta_ND[back],
        loss_N[back],
        [counts[i] for i in back.tolist()],
        [kept[i] for i in back.tolist()],
    )


def norms(rows_ND: Array) -> np.ndarray:
    """The Euclidean norm of each row, (N,); what overflows is summed again."""
    rows_ND = as_numpy(rows_ND)
    with np.errstate(over="ignore", invalid="ignore"):
        norm_N: np.ndarray = np.sqrt(np.einsum("nd,nd->n", rows_ND, rows_ND))
    for row in np.flatnonzero(~np.isfinite(norm_N)).tolist():
        norm_N[row] = np.sqrt(np.square(rows_ND[row], dtype=np.float64).sum())
    return norm_N


def _starts(
    base_D: Array | Sequence[Array], order: Indices | None, count: int
) -> Array:
    if not isinstance(base_D, Sequence):
        xp = array_namespace(base_D)
        return xp.broadcast_to(base_D, (count, base_D.shape[-1]))
    xp = array_namespace(base_D[0])
    if order is not None:
        base_D = [base_D[i] for i in order.tolist()]
    return xp.stack(base_D)


def _kept(kept: Sequence[State]) -> State:
    """What the clients kept from their tasks before, in one array."""
    first: Vector | None = next((each for each in kept if each is not None), None)
    if first is None:
        return None
    xp = array_namespace(first)
    return xp.stack([xp.zeros_like(first) if k is None else k for k in kept])


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
