"""Many tasks at once: the updates of a stack of clients.

A task's result depends only on its model, its client's samples, its key and the
settings, so tasks are computed together whenever that is convenient. The batches are
those that each client would draw by itself, and the arithmetic is that of
:mod:`fedcore.clients` along the last axis: a stack equals its clients one by one, up
to the order in which the gradients of a batch are summed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedcore.arrays import array_namespace, as_numpy
from fedcore.clients import (
    Batches,
    ClientAlgorithmConfig,
    Descent,
    Rule,
    Taken,
    TakeSteps,
    WithLocal,
    by_gradients,
    join_kept,
    meet_model,
    split_kept,
)
from fedcore.errors import NotStackableError
from fedcore.evaluation import nbytes_of
from fedcore.model import StackedModel, Steps
from fedcore.pool import Part, Pool
from fedcore.rng import Key, Words
from fedcore.samples import Reading, leaves, require_stackable, stack
from fedcore.typing import Array, Counts, Indices, State, Vector

ROOM = 32 << 20  # bytes of batches that are read before their gradients are computed


class StackedTasks(NamedTuple):
    """Tasks of N clients."""

    clients: Sequence[int]  # their places in the pool
    seeds_N: Words  # of their keys
    steps: Sequence[int]
    kept: Sequence[State]  # from the task before
    key: Key  # for what the model draws itself, in the whole stack


class StackedUpdates(NamedTuple):
    """The updates of a stack, in the order of its tasks."""

    delta_ND: Array  # Δ = W - w
    loss_N: Array  # mean over the steps
    counts: list[Counts | None]  # labels of the steps taken
    kept: list[State]


def why_one_by_one(config: ClientAlgorithmConfig) -> str | None:
    """Returns why clients cannot be trained in stacks; None: they can.

    Args:
        config: of the client algorithm.
    """
    if config.build().sampling is None:
        return None
    return (
        f"{config.kind} draws the samples of a step by the gradients of the steps "
        "before, of each client by itself"
    )


def train_stack(
    model: StackedModel,
    pool: Pool,
    config: ClientAlgorithmConfig,
    tasks: StackedTasks,
    base_D: Array | Sequence[Array],
    *,
    count_labels: bool,
    frozen: Sequence[slice] = (),
) -> StackedUpdates:
    """Trains a stack of clients.

    Args:
        model: computes the gradients.
        pool: holds the samples of all clients of these tasks.
        config: of the client algorithm, for the version of these tasks.
        tasks: N of them.
        base_D: the public model that they all start from, or one for each.
        count_labels: whether the labels that were used are to be counted.
        frozen: the parts of the models that no step moves.

    Raises:
        NotStackableError: the client algorithm trains clients one by one.
    """
    if (why := why_one_by_one(config)) is not None:
        raise NotStackableError(why)
    algorithm, count = config.build(), len(tasks.clients)
    steps_N = np.array(tasks.steps)
    samples_N = pool.sizes(tasks.clients)
    batches = algorithm.plan(samples_N, steps_N, tasks.seeds_N)
    source: Part | _Reads
    if pool.are_read(tasks.clients):
        source = _Reads(model, pool, tasks.clients, batches, steps_N)
    else:
        source = pool.part_of(tasks.clients[0])
        rows_NSB = source.rows(tasks.clients, batches.rows_NSB)
        batches = batches._replace(rows_NSB=rows_NSB)

    def take(start_ND: Array, rule: Rule) -> Taken:
        if isinstance(source, Part) and isinstance(rule, Descent):
            steps = Steps(rule, source.x, source.y, *batches, start_ND, frozen)
            taken = model.descend(steps)
            if taken is not None:
                return taken
        return _one_after_the_other(
            model, pool, batches, steps_N, start_ND, rule, frozen, source
        )

    model.seed(tasks.key)
    start_ND = _starts(base_D, count)
    methods: list[State] = [*tasks.kept]
    stepping: TakeSteps = take
    if model.local_L is not None:
        parts = [split_kept(kept, model.local_L) for kept in tasks.kept]
        methods = [method for method, _ in parts]
        local_NL = np.stack([local_L for _, local_L in parts if local_L is not None])
        stepping = with_local = WithLocal(take, local_NL)
    before = _stack_kept(methods)
    trained = algorithm.run(start_ND, steps_N, stepping, before)
    trained = meet_model(algorithm, start_ND, trained)
    counts: list[Counts | None] = [None] * count
    if count_labels and isinstance(source, _Reads):
        counts = source.label_counts()
    elif count_labels:
        counts = _label_counts(pool, batches, tasks.clients)
    kept: list[State] = [None] * count
    if trained.state is not None:  # copies: a client's must not keep the whole stack
        xp = array_namespace(trained.state)
        kept = [xp.asarray(row, copy=True) for row in trained.state]
    if model.local_L is not None:
        rows = as_numpy(with_local.local_L).copy()
        kept = [join_kept(*pair) for pair in zip(kept, rows, strict=True)]
    return StackedUpdates(trained.delta_D, as_numpy(trained.loss), counts, kept)


def _one_after_the_other(
    model: StackedModel,
    pool: Pool,
    batches: Batches,
    steps_N: Counts,
    start_ND: Array,
    rule: Rule,
    frozen: Sequence[slice],
    source: "Part | _Reads",
) -> Taken:
    """Takes a step of all clients after the other, those with most steps first.

    ``source`` gives the batches: arrays, or data that are read.
    """
    rows_NSB, sizes_NS = batches
    order = _order(steps_N)
    if order is not None:
        rows_NSB, sizes_NS, steps_N = rows_NSB[order], sizes_NS[order], steps_N[order]
        start_ND, rule = start_ND[order], rule.select(order)

    if isinstance(source, Part):
        part = source

        def ask(w_ND: Array, step: int) -> tuple[Array, Array]:
            sizes_N = sizes_NS[: len(w_ND), step]
            rows_NB = rows_NSB[: len(w_ND), step, : int(sizes_N.max())]
            return model.gradient(w_ND, *part.batch(rows_NB), sizes_N)

    else:
        ask = source.gradient
    room_ND = pool.room(len(steps_N), start_ND)
    take = by_gradients(ask, steps_N, room_ND, model.buffers, frozen)
    taken = take(start_ND, rule)
    if order is None:
        return taken
    back = np.argsort(order)
    return Taken(taken.delta_D[back], taken.loss[back], taken.rule.select(back))


def _order(steps_N: Counts) -> Indices | None:
    """Returns the clients sorted by their steps, most first; None: they are already."""
    if (steps_N[1:] > steps_N[:-1]).any():
        return np.argsort(-steps_N, kind="stable")
    return None


class _Reads:
    """The gradients of a stack whose samples are read when they are used.

    Batches of one shape are computed together, up to :data:`ROOM` bytes of them.
    """

    def __init__(
        self,
        model: StackedModel,
        pool: Pool,
        clients: Sequence[int],
        batches: Batches,
        steps_N: Counts,
    ) -> None:
        self._model, self._order = model, _order(steps_N)
        order = range(len(clients)) if self._order is None else self._order.tolist()
        self._samples = [pool.samples_of(clients[place]) for place in order]
        self._rows = [batches.of(place) for place in order]
        most = len(self._rows[0]) if self._rows else 0
        self._reading = Reading(
            [
                [
                    (samples, rows[step])
                    for samples, rows in zip(self._samples, self._rows, strict=True)
                    if step < len(rows)
                ]
                for step in range(most)
            ]
        )

    def gradient(self, w_ND: Array, step: int) -> tuple[Array, Array]:
        """Returns the mean losses and gradients of the clients that take a step."""
        xp, found = array_namespace(w_ND), None
        for places, x_MB, y_MB in self._together(step):
            sizes_M = np.array([len(self._rows[place][step]) for place in places])
            if len(places) == len(w_ND):
                return self._model.gradient(w_ND, x_MB, y_MB, sizes_M)
            if found is None:
                found = xp.zeros_like(w_ND[:, 0]), xp.empty_like(w_ND)
            loss_M, g_MD = self._model.gradient(w_ND[places], x_MB, y_MB, sizes_M)
            found[0][places], found[1][places] = loss_M, g_MD
        assert found is not None
        return found

    def label_counts(self) -> list[Counts | None]:
        """Returns how often each class was used, by the clients of the stack."""
        counts: list[Counts | None] = []
        for place, samples in enumerate(self._samples):
            found = samples.label_counts(np.concatenate(self._rows[place]))
            counts.append(self._reading.labels.of(place) if found is None else found)
        back = range(len(counts)) if self._order is None else np.argsort(self._order)
        return [counts[place] for place in back]

    def _together(self, step: int) -> Iterator[tuple[list[int], Any, Any]]:
        """Yields batches of one shape, those of several clients as one."""
        groups: dict[str, tuple[list[int], list[Any], list[Any]]] = {}
        nbytes = 0
        for place, (x, y) in enumerate(self._reading.of(step)):
            require_stackable((x, y), len(self._rows[place][step]))
            key = str([(tuple(part.shape), part.dtype) for part in leaves((x, y))])
            places, xs, ys = groups.setdefault(key, ([], [], []))
            places.append(place)
            xs.append(x)
            ys.append(y)
            nbytes += nbytes_of((x, y))
            if nbytes > ROOM:
                yield from _stack_groups(groups)
                nbytes = 0
        yield from _stack_groups(groups)


def _stack_groups(
    groups: dict[str, tuple[list[int], list[Any], list[Any]]],
) -> Iterator[tuple[list[int], Any, Any]]:
    """Yields the batches of each group as one, and empties the groups."""
    while groups:
        _, (places, xs, ys) = groups.popitem()
        yield places, stack(xs), stack(ys)


def _starts(base_D: Array | Sequence[Array], count: int) -> Array:
    """Returns one model a row, without copying the one that all start from."""
    if isinstance(base_D, Sequence):
        return array_namespace(base_D[0]).stack(base_D)
    return array_namespace(base_D).broadcast_to(base_D, (count, base_D.shape[-1]))


def _stack_kept(kept: Sequence[State]) -> State:
    """Joins what the clients kept from their tasks before in one array."""
    first: Vector | None = next((each for each in kept if each is not None), None)
    if first is None:
        return None
    xp = array_namespace(first)
    return xp.stack([xp.zeros_like(first) if k is None else k for k in kept])


def _label_counts(
    pool: Pool, batches: Batches, clients: Sequence[int]
) -> list[Counts | None]:
    """Counts the labels of each task; whole passes are known without reading labels.

    All clients are in one part of the pool.
    """
    rows_NSB, sizes_NS = batches
    part = pool.part_of(clients[0])
    counted: list[Counts | None] = []
    used = sizes_NS.sum(axis=1).tolist()
    for place, client in enumerate(clients):
        passes, rest = divmod(used[place], pool.size(client))
        known = pool.counts(client)
        if known is not None and not rest:
            counted.append(known if passes == 1 else known * passes)
            continue
        valid = np.arange(rows_NSB.shape[-1]) < sizes_NS[place][:, None]
        counted.append(part.label_counts(rows_NSB[place][valid]))
    return counted
