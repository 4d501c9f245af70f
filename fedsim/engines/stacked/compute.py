"""Computes tasks: trains a stack of clients and makes their messages.

The result of a task depends only on the data that are passed with it, on the samples of
its client and on settings that never change. It therefore does not matter which worker
computes the task, and the loss of a worker loses no state.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import as_numpy, like
from fedcore.clients import ClientAlgorithmConfig, take_back
from fedcore.compressors import Compressor, Context
from fedcore.errors import WorkloadError
from fedcore.model import StackedModel
from fedcore.participant import encode, start_of, why_unusable
from fedcore.payloads import dense_payload
from fedcore.pool import Pool
from fedcore.rng import Key
from fedcore.stacks import StackedTasks, StackedUpdates, train_stack
from fedcore.training import client_seed, task_key, task_seeds
from fedcore.typing import Array, Indices, State, Vector
from fedcore.user_code import Failure, out_of_memory, user_code
from fedrun.traffic import codec_of
from fedsim.engines.stacked.stack import Stack
from fedsim.engines.stacked.threads import one_thread

Base = tuple[int, int]  # a version, and the group whose model it is
Models = Mapping[Base, Vector]


class Task(NamedTuple):
    """A client's task, with everything that the client remembers."""

    client: int
    seq: int
    version: int
    steps: int
    kept: State = None  # the memory from the task before
    memory_D: Vector | None = None  # the error memory: what its messages have left out
    recalled: State = None  # what its next message needs of the last decided one
    density: float = 1.0  # of its message
    wanted: int | None = None  # samples that its steps use; None for the usual number
    group: int = 0  # whose model it begins with

    @property
    def base(self) -> Base:
        """The name of the model that it begins with."""
        return self.version, self.group


class Computed(NamedTuple):
    """The places of the results of tasks, in the order of the tasks."""

    places: list[tuple[Stack, int]]
    most: int  # the number trained together: as requested, or as memory allowed


class Computes(Protocol):
    """A place where tasks are computed: this process, or workers."""

    size: int
    """The best number of stacks for one request."""

    def compute(self, tasks: Sequence[Task], models: Models, most: int) -> Computed:
        """Computes tasks, at most ``most`` of them together.

        An error in the model, the loss or the samples only fails its own task.

        Raises:
            UserCodeError: a single task does not fit into memory.
        """

    def close(self) -> None:
        """Ends everything that was started."""


class Computer:
    """Computes tasks in this process."""

    size = 1

    def __init__(
        self,
        model: StackedModel,
        algorithm: Algorithm,
        pool: Pool,
        names: Sequence[str],
        *,
        seed: int,
        count_labels: bool,
    ) -> None:
        """Prepares to compute tasks of clients whose samples are in the pool.

        Args:
            model: computes the gradients.
            algorithm: the algorithm of the federation.
            pool: the samples; it may grow between calls.
            names: the names of all clients.
            seed: the seed of the run.
            count_labels: whether to count the labels that were used.
        """
        self._model, self._algorithm, self._pool = model, algorithm, pool
        self._names, self._seed, self._count_labels = names, seed, count_labels
        self._seeds_N = np.array([client_seed(seed, n) for n in names], np.uint64)
        self._settings_of = algorithm.clients
        self._which = [algorithm.clients.number_of(name) for name in names]
        self._has_local = bool(algorithm.model.local)
        uplink = algorithm.config.uplink
        self._plain = uplink.is_exact
        self._uplink_config, self._own_views = uplink, uplink.trains_on_own_view
        self._has_memory = uplink.holds != "nothing"
        self._dense_bytes = dense_bytes(algorithm.spec.dim)

    def compute(self, tasks: Sequence[Task], models: Models, most: int) -> Computed:
        """Computes tasks with the same settings together, at most ``most`` of them.

        Samples of different shapes are computed separately, so an error in one client's
        samples does not affect the others.

        Raises:
            UserCodeError: a single task does not fit into memory.
        """
        which = self._which
        kinds = [(which[task.client], task.version, task.wanted) for task in tasks]
        settings = dict.fromkeys(kinds, "")
        if len(settings) > 1:
            settings = {k: self._settings(*k).model_dump_json() for k in settings}
        groups: dict[tuple[str, int], list[int]] = {}
        number_of = self._pool.number_of if self._pool.is_mixed else _only_part
        for place, kind in enumerate(kinds):
            key = settings[kind], number_of(tasks[place].client)
            groups.setdefault(key, []).append(place)
        found: dict[int, tuple[Stack, int]] = {}
        with one_thread():
            for places in groups.values():
                group = [tasks[place] for place in places]
                where, most = self._in_parts(group, models, most)
                found.update(zip(places, where, strict=True))
        return Computed([found[place] for place in range(len(tasks))], most)

    def close(self) -> None:
        """Does nothing, because nothing was started."""

    def _in_parts(
        self, tasks: Sequence[Task], models: Models, most: int
    ) -> tuple[list[tuple[Stack, int]], int]:
        """Computes tasks in parts; halves parts that do not fit into memory."""
        found: list[tuple[Stack, int]] = []
        while len(found) < len(tasks):
            left = tasks[len(found) :]
            part = left[: -(-len(left) // -(-len(left) // most))]  # all about as many
            try:
                found += self._compute_together(part, models)
            except Exception as error:
                if len(part) == 1 or not out_of_memory(error):
                    raise
                most = len(part) // 2
        return found, most

    def _compute_together(
        self, tasks: Sequence[Task], models: Models
    ) -> list[tuple[Stack, int]]:
        """Computes tasks together; halves them until the failing ones are alone."""
        try:
            stack = self._together(tasks, models)
        except WorkloadError as error:
            if out_of_memory(error):
                raise
            if len(tasks) == 1:
                return [(Stack.failed(Failure.of(error)), 0)]
            middle = len(tasks) // 2
            first = self._compute_together(tasks[:middle], models)
            return first + self._compute_together(tasks[middle:], models)
        return [(stack, row) for row in range(len(tasks))]

    def _together(self, tasks: Sequence[Task], models: Models) -> Stack:
        clients = [task.client for task in tasks]
        seq_N = np.array([task.seq for task in tasks])
        first = tasks[0]
        together = StackedTasks(
            clients,
            task_seeds(self._seeds_N[clients], seq_N),
            [task.steps for task in tasks],
            [task.kept for task in tasks],
            self._key(first).fold_in("model"),
        )
        base_D: Array | list[Array] = models[first.base]
        if self._own_views or len({task.base for task in tasks}) > 1:
            base_D = [
                start_of(self._uplink_config, models[task.base], task.memory_D)
                for task in tasks
            ]
        which = self._which[first.client]
        config = self._settings(which, first.version, first.wanted)
        with user_code("training"):
            updates = train_stack(
                self._model,
                self._pool,
                config,
                together,
                base_D,
                count_labels=self._count_labels,
                frozen=config.frozen_parts(self._algorithm.model),
            )
        stack = Stack(self._weigh(updates, tasks), self._dense_bytes)
        if self._algorithm.config.clients_evaluate:
            starts = base_D if isinstance(base_D, list) else [base_D] * len(tasks)
            for row, start_D in enumerate(starts):
                stack.own[row] = as_numpy(start_D) - as_numpy(updates.delta_ND[row])
        if not self._plain:
            self._encode(tasks, models, stack)
        if not all(stack.sound):
            for row in np.flatnonzero(np.logical_not(stack.sound)).tolist():
                delta_D = as_numpy(stack.delta_ND[row])
                stack.unusable[row] = why_unusable(self._algorithm.spec, delta_D)
        return stack

    def _weigh(self, updates: StackedUpdates, tasks: Sequence[Task]) -> StackedUpdates:
        """Returns updates that are multiplied as the aggregator says."""
        if not self._algorithm.config.aggregator.multiplies:
            return updates
        times_N = np.array(
            [
                self._algorithm.coefficient(
                    self._own(task),
                    task.version,
                    task.steps,
                    self._pool.size(task.client),
                )
                for task in tasks
            ],
            np.float32,
        )
        times_N1 = like(times_N[:, np.newaxis], updates.delta_ND)
        return updates._replace(delta_ND=updates.delta_ND * times_N1)

    def _encode(self, tasks: Sequence[Task], models: Models, stack: Stack) -> None:
        """Makes the messages, and the memories of what they leave out."""
        for places in self._alike(tasks, np.flatnonzero(stack.sound)):
            rows_ND, some = stack.delta_ND[places], [tasks[i] for i in places]
            made = encode(
                self._uplink(some[0], models),
                rows_ND,
                self._memories(some, rows_ND.shape) if self._has_memory else None,
                [self._key(task).fold_in("uplink") for task in some],
            )
            usable, update_norm, memory_norm = (
                each.tolist()
                for each in (made.is_usable, made.update_norm, made.memory_norm)
            )
            for row, message in enumerate(payloads.rows(made.payload)):
                place = places[row]
                stack.sound[place] = usable[row]
                if not usable[row]:
                    continue
                packed = payloads.pack(message)
                stack.messages[place] = message
                stack.nbytes[place], stack.codec[place] = len(packed), codec_of(packed)
                stack.update_norm[place] = update_norm[row]
                stack.memory_norm[place] = memory_norm[row]
                if made.residual is not None:
                    stack.residual[place] = made.residual[row]
                if made.removed is not None:
                    kept, removed_D = stack.kept[place], made.removed[row]
                    stack.kept[place] = take_back(
                        self._own(tasks[place]),
                        kept,
                        removed_D,
                        has_local=self._has_local,
                    )

    def _own(self, task: Task) -> ClientAlgorithmConfig:
        """Returns the settings of the client of a task."""
        return self._settings_of.all[self._which[task.client]]

    def _settings(
        self, which: int, version: int, wanted: int | None
    ) -> ClientAlgorithmConfig:
        """Returns the client algorithm for a version and a number of samples."""
        return self._settings_of.all[which].at(version).with_samples(wanted)

    def _key(self, task: Task) -> Key:
        return task_key(self._seed, self._names[task.client], task.seq)

    def _uplink(self, task: Task, models: Models) -> Compressor:
        """Returns the compressor for messages of tasks like this one."""
        version = task.version
        rate = self._own(task).rate(version)
        context = Context(version, models[task.base], task.recalled, rate)
        return self._algorithm.uplink_of(task.density).at(lambda: context)

    def _alike(self, tasks: Sequence[Task], sound: Indices) -> list[list[int]]:
        """Returns groups of places whose messages may be made together."""
        has_context = self._algorithm.uplink.adapt is not None
        groups: dict[tuple[float, ...], list[int]] = {}
        for place in sound.tolist():
            task, context = tasks[place], ()
            if has_context:
                alone = () if task.recalled is None else (place,)
                context = (self._which[task.client], *task.base, *alone)
            groups.setdefault((task.density, *context), []).append(place)
        return list(groups.values())

    def _memories(self, tasks: Sequence[Task], shape: tuple[int, ...]) -> Vector:
        """Returns the error memories (N, D) of these tasks, or zeros."""
        memory_ND = np.zeros(shape, np.float32)
        for row, task in enumerate(tasks):
            if task.memory_D is not None:
                memory_ND[row] = task.memory_D
        return memory_ND


def _only_part(client: int) -> int:
    """Returns the number of a pool's only part; see :meth:`Pool.number_of`."""
    return 0


def dense_bytes(dim: int) -> int:
    """Returns the bytes of an update that is not compressed."""
    return dense_payload(np.zeros(dim, np.float32)).nbytes
