"""What clients compute: nothing, until the first result falls due; then all at once.

A task's result depends on its model, its data, its key and the settings alone, so it
may be computed at any time between the lease and the moment at which it is needed.
"""

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import array_namespace
from fedcore.compressors import (
    Compressor,
    Context,
    ErrorFeedback,
    Identity,
    MemoryConfig,
)
from fedcore.coordinator.verdicts import LARGEST
from fedcore.payloads import Payload, dense_payload
from fedcore.pool import Pool
from fedcore.rng import Key
from fedcore.stacks import StackedTasks, StackedUpdates, norms, train_stack
from fedcore.training import client_seed, task_key, task_seeds
from fedcore.typing import Array, Indices, Seconds, Vector
from fedcore.workload import StackedModel
from fedrun.traffic import codec_of
from fedsim.stacked.memories import Memories

_STACK_BYTES = 1 << 26  # of models, gradients and the like that are in use at a time
_COPIES = 8  # of a stack's models, with gradients, updates and memories


class Stack:
    """What came of tasks that were computed together, one a row."""

    def __init__(self, updates: StackedUpdates, nbytes: int) -> None:
        count = len(updates.loss_N)
        self.delta_ND = updates.delta_ND
        self.counts, self.kept = updates.counts, updates.kept
        self.loss: list[float] = updates.loss_N.tolist()
        self.update_norm = norms(updates.delta_ND).tolist()
        self.memory_norm = [0.0] * count
        self.sound = [size <= LARGEST for size in self.update_norm]
        self.nbytes = [nbytes] * count
        self.codec = ["dense"] * count
        self.messages: list[Payload | None] = [None] * count  # None: all of Δ
        self.residual: list[Vector | None] = [None] * count

    @staticmethod
    def gathered(rows: "Sequence[tuple[Stack, int]]") -> Array:
        """Updates of several stacks, (K, D)."""
        parts = [stack.delta_ND[row] for stack, row in rows]
        return array_namespace(parts[0]).stack(parts)


class Waiting(NamedTuple):
    """A task that was given and not computed yet."""

    due: Seconds
    seq: int
    version: int
    base_D: Vector
    steps: int


class Work:
    """The tasks in flight."""

    def __init__(
        self,
        model: StackedModel,
        algorithm: Algorithm,
        names: Sequence[str],
        pool: Pool,
        *,
        seed: int,
        count_labels: bool,
        most: int,
        memory_bytes: int,
    ) -> None:
        """``most`` tasks at a time; ``memory_bytes`` of what clients keep in memory."""
        dim = algorithm.spec.dim
        self._model, self._algorithm, self._pool = model, algorithm, pool
        self._names, self._seed, self._count_labels = names, seed, count_labels
        self._most = max(1, min(most, _STACK_BYTES // (4 * dim * _COPIES)))
        self._config = algorithm.config.client
        uplink = algorithm.config.uplink
        self._plain = isinstance(uplink, Identity)
        self._has_memory = isinstance(uplink, MemoryConfig)
        self._cap = uplink.cap if isinstance(uplink, ErrorFeedback) else None
        self._dense_bytes = dense_payload(np.zeros(dim, np.float32)).nbytes
        self.memories = Memories(dim, memory_bytes)
        self._seeds_N = np.array([client_seed(seed, n) for n in names], np.uint64)
        self._looks_back = uplink.looks_back
        self._previous: dict[int, Payload] = {}  # last messages, if they matter
        self._kept: dict[int, Any] = {}
        self._waiting: dict[int, Waiting] = {}
        self._done: dict[int, tuple[Stack, int]] = {}

    @property
    def fixed_bytes(self) -> int | None:
        """What an update takes on its way, if that is known before it is computed."""
        return self._dense_bytes if self._plain else None

    def close(self) -> None:
        """Removes what was put into files."""
        self.memories.close()

    def give(self, client: int, task: Waiting) -> None:
        """A client begins a task."""
        self._waiting[client] = task

    def drop(self, client: int) -> None:
        """A client's task comes to nothing."""
        self._waiting.pop(client, None)
        self._done.pop(client, None)

    def result(self, client: int) -> tuple[Stack, int]:
        """Where a client's update is; it and others are computed if need be."""
        found = self._done.get(client)
        if found is None:
            self._compute(client)
            found = self._done[client]
        return found

    def settle(self, client: int, *, returns_mass: bool) -> None:
        """The verdict on a client's update: what is left stays in its memory.

        Args:
            client: whose.
            returns_mass: whether the client takes the message back.
        """
        stack, row = self._done.pop(client)
        if self._plain:
            if stack.kept[row] is not None:
                self._kept[client] = stack.kept[row]
            return
        message, residual_D = stack.messages[row], stack.residual[row]
        if message is None:
            return
        if stack.kept[row] is not None:
            self._kept[client] = stack.kept[row]
        if self._looks_back:
            self._previous[client] = message
        if residual_D is None:
            return
        if returns_mass:
            payloads.add(message, residual_D)
        self.memories.put(client, residual_D)

    def _compute(self, needed: int) -> None:
        chosen = list(self._waiting)
        if len(chosen) > self._most:
            due = {client: task.due for client, task in self._waiting.items()}
            chosen = heapq.nsmallest(self._most, due, key=due.__getitem__)
            if needed not in chosen:
                chosen[-1] = needed
        groups: dict[Any, list[int]] = {}
        for client in chosen:
            version = self._waiting[client].version
            lr = getattr(self._config.at(version), "lr", None)
            groups.setdefault(lr, []).append(client)
        for clients in groups.values():
            self._compute_together(clients)

    def _compute_together(self, clients: list[int]) -> None:
        tasks = [self._waiting.pop(client) for client in clients]
        seq_N = np.array([task.seq for task in tasks])
        together = StackedTasks(
            clients,
            task_seeds(self._seeds_N[clients], seq_N),
            [task.steps for task in tasks],
            [self._kept.get(client) for client in clients],
            self._key(clients[0], tasks[0]).fold_in("model"),
        )
        base_D: Array | list[Array] = tasks[0].base_D
        if any(task.base_D is not tasks[0].base_D for task in tasks):
            base_D = [task.base_D for task in tasks]
        updates = train_stack(
            self._model,
            self._pool,
            self._config.at(tasks[0].version),
            together,
            base_D,
            count_labels=self._count_labels,
        )
        stack = Stack(updates, self._dense_bytes)
        if not self._plain:
            self._encode(clients, tasks, stack)
        for row, client in enumerate(clients):
            self._done[client] = stack, row

    def _encode(
        self,
        clients: list[int],
        tasks: list[Waiting],
        stack: Stack,
    ) -> None:
        """Messages, and the memories of what they leave out."""
        for places in self._alike(tasks, np.flatnonzero(stack.sound)):
            rows_ND, whose = stack.delta_ND[places], [clients[i] for i in places]
            memory_ND = None
            if self._has_memory:
                sizes = [stack.update_norm[i] for i in places]
                memory_ND = self._memories_of(whose, sizes)
            messages, residual_ND = self._uplink(tasks[places[0]], whose[0]).encode(
                rows_ND,
                memory_ND,
                [self._key(clients[i], tasks[i]).fold_in("uplink") for i in places],
            )
            corrected_ND = rows_ND if memory_ND is None else memory_ND + rows_ND
            corrected_N = norms(corrected_ND).tolist()
            left_N = [0.0] * len(places)
            if residual_ND is not None:
                left_N = norms(residual_ND).tolist()
            for row, message in enumerate(payloads.rows(messages)):
                place = places[row]
                stack.sound[place] = bool(corrected_N[row] + left_N[row] <= LARGEST)
                if not stack.sound[place]:
                    continue
                packed = payloads.pack(message)
                stack.messages[place] = message
                stack.nbytes[place], stack.codec[place] = len(packed), codec_of(packed)
                stack.update_norm[place] = corrected_N[row]
                stack.memory_norm[place] = left_N[row]
                if residual_ND is not None:
                    stack.residual[place] = residual_ND[row]

    def _key(self, client: int, task: Waiting) -> Key:
        return task_key(self._seed, self._names[client], task.seq)

    def _uplink(self, task: Waiting, client: int) -> Compressor:
        """The compressor for messages of tasks like this one."""
        before = self._previous.get(client)
        context = Context(task.version, task.base_D, lambda: before)
        return self._algorithm.uplink.at(lambda: context)

    def _alike(self, tasks: list[Waiting], sound: Indices) -> list[list[int]]:
        """Places whose messages may be made together."""
        places = sound.tolist()
        if not places or self._algorithm.uplink.given is None:
            return [places] if places else []
        if self._looks_back:
            return [[place] for place in places]
        groups: dict[int, list[int]] = {}
        for place in places:
            groups.setdefault(tasks[place].version, []).append(place)
        return list(groups.values())

    def _memories_of(self, clients: list[int], sizes: list[float]) -> Vector:
        memory_ND = self.memories.stack(np.array(clients))
        if self._cap is None:
            return memory_ND
        for row, size in enumerate(norms(memory_ND).tolist()):
            limit = self._cap * sizes[row]
            if limit and size > limit:
                memory_ND[row] *= np.float32(limit / size)
        return memory_ND
