"""The computations of clients, which are delayed until the first result is needed.

Then all waiting tasks are computed at once. A task's result depends only on its model,
its data, its key and the settings, so it may be computed at any time between the lease
and the moment at which it is needed.
"""

import heapq
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from fedcore.algorithm import Algorithm
from fedcore.arrays import as_numpy
from fedcore.clients import take_back
from fedcore.participant import fold, is_gone
from fedcore.payloads import decode
from fedcore.protocol import Verdict
from fedcore.trees import Arrays, load_each, save_each
from fedcore.typing import JSON, Seconds, State, Vector
from fedsim.engines.stacked.compute import Computes, Task, dense_bytes
from fedsim.engines.stacked.memories import Memories
from fedsim.engines.stacked.stack import Stack as Stack
from fedsim.engines.stacked.threads import one_thread

_log = logging.getLogger("fedsim")
_STACK_BYTES = 1 << 26  # of models, gradients and the like that are in use at a time
_COPIES = 8  # copies of a stack's models, with gradients, updates and memories


class Waiting(NamedTuple):
    """A task that was given and not computed yet."""

    due: Seconds
    seq: int
    version: int
    base_D: Vector
    steps: int
    density: float = 1.0  # of the message
    wanted: int | None = None  # samples that the steps use; None for the usual number
    group: int = 0  # whose model it is


class Work:
    """The tasks in flight, and the memories of clients from one task to the next."""

    def __init__(
        self,
        algorithm: Algorithm,
        computes: Computes,
        names: Sequence[str],
        *,
        most: int,
        memory_bytes: int,
    ) -> None:
        """Begins without any task.

        Args:
            algorithm: the algorithm of the federation.
            computes: computes the tasks.
            names: the names of all clients.
            most: the number of tasks in a stack.
            memory_bytes: the bytes of clients' vectors that stay in memory.
        """
        self._names = names
        self._settings = algorithm.clients
        dim, self._layout = algorithm.spec.dim, algorithm.spec.sizes
        self._computes = computes
        self._most = max(1, min(most, _STACK_BYTES // (4 * dim * _COPIES)))
        self._uplink = uplink = algorithm.config.uplink
        self._plain = uplink.is_exact
        self._has_memory = uplink.holds != "nothing"
        self._recall = algorithm.uplink.recall
        self._client = algorithm.config.client
        self._has_local = bool(algorithm.model.local)
        self._comes_again = self._has_memory or self._client.overlaps
        self._counts_updates = self._client.counts_updates
        self._leaves_nothing = self._plain and not self._counts_updates
        self._dense_bytes = dense_bytes(dim)
        self.memories = Memories(dim, memory_bytes)
        self._recalled: dict[int, State] = {}  # of last messages, if they matter
        self._kept: dict[int, State] = {}
        self._waiting: dict[int, Waiting] = {}
        self._done: dict[int, tuple[Stack, int]] = {}
        self._closing = ExitStack()
        self._closing.callback(self.memories.close)
        self._closing.callback(computes.close)
        self._closing.enter_context(one_thread(with_torch=False))  # evaluation may

    @property
    def fixed_bytes(self) -> int | None:
        """The bytes of an update, if they are known before it is computed."""
        return self._dense_bytes if self._plain else None

    def close(self) -> None:
        """Ends the workers, and removes the files."""
        self._closing.close()

    def give(self, client: int, task: Waiting) -> None:
        """Lets a client begin a task."""
        self._waiting[client] = task

    def drop(self, client: int) -> None:
        """Drops a client's task."""
        self._waiting.pop(client, None)
        self._done.pop(client, None)

    def result(self, client: int) -> tuple[Stack, int]:
        """Returns the place of a client's update, which is computed if necessary.

        Other waiting tasks are computed with it.

        Raises:
            UserCodeError: a single task does not fit into memory.
        """
        found = self._done.get(client)
        if found is None:
            self._compute(client)
            found = self._done[client]
        return found

    def kept(self, client: int, *, has_message: bool = False) -> State:
        """Returns the state that a client keeps.

        Args:
            client: its place.
            has_message: whether it has made a message that is not settled.
        """
        if has_message and client in self._done:
            stack, row = self._done[client]
            if stack.kept[row] is not None:
                return stack.kept[row]
        return self._kept.get(client)

    def takes_back(self, verdict: Verdict) -> bool:
        """Returns whether a verdict takes an update out of its client's kept state."""
        return self._counts_updates and is_gone(
            self._uplink, verdict, has_memory=self._comes_again
        )

    def settle(self, client: int, verdict: Verdict) -> None:
        """Settles a client's memory with the verdict on its update."""
        stack, row = self._done.pop(client)
        if stack.kept[row] is not None:
            self._kept[client] = stack.kept[row]
        if self._leaves_nothing:
            return
        message, residual_D = stack.messages[row], stack.residual[row]
        if self.takes_back(verdict):
            gone_D = stack.delta_ND[row] if message is None else decode(message)
            kept = self._kept.get(client)
            self._kept[client] = take_back(
                self._settings.of(self._names[client]),
                kept,
                as_numpy(gone_D),
                has_local=self._has_local,
            )
        if message is None:
            return
        if self._recall is not None:
            self._recalled[client] = self._recall(message)
        if residual_D is None:
            return
        if self._uplink.brings_back(verdict):
            residual_D = fold(residual_D, None, message)
        self.memories.put(client, residual_D)

    def dump(self, arrays: Arrays) -> JSON:
        """Returns everything that current and later tasks depend on.

        Vectors go to ``arrays``. Computed results are saved as they are: another stack
        would reproduce them only up to float tolerance.
        """
        arrays["work.memories"] = self.memories.dump()
        for task in self._waiting.values():
            name = f"work.base.{task.version}.{task.group}"
            arrays[name] = as_numpy(task.base_D)
        return {
            "memories": self.memories.clients(),
            "recalled": save_each(self._recalled, "work.recalled", arrays),
            "kept": save_each(self._kept, "work.kept", arrays),
            "waiting": [
                [client, task.version, [task.due, task.seq, *task[4:]]]
                for client, task in self._waiting.items()
            ],
            "done": [
                [client, stack.dump(row, f"work.done.{client}", arrays)]
                for client, (stack, row) in self._done.items()
            ],
        }

    def load(self, saved: JSON, arrays: Mapping[str, Any]) -> None:
        """Restores the tasks that :meth:`dump` returned."""
        rows_ND = arrays["work.memories"]
        for client, row_D in zip(saved["memories"], rows_ND, strict=True):
            self.memories.put(client, row_D)
        self._recalled = load_each(saved["recalled"], arrays)
        self._kept = load_each(saved["kept"], arrays)
        for client, version, task in saved["waiting"]:
            due, seq, *rest = task
            base_D = arrays[f"work.base.{version}.{rest[-1]}"]
            self._waiting[client] = Waiting(due, seq, version, base_D, *rest)
        for client, result in saved["done"]:
            name = f"work.done.{client}"
            stack = Stack.load(result, name, arrays, self._layout)
            self._done[client] = stack, 0

    def _compute(self, needed: int) -> None:
        waiting, most = self._waiting, self._most * self._computes.size
        chosen = list(waiting)
        if len(chosen) > most:
            due = {client: task.due for client, task in waiting.items()}
            chosen = heapq.nsmallest(most, due, key=due.__getitem__)
            if needed not in chosen:
                chosen[-1] = needed
        given = [waiting[client] for client in chosen]
        tasks = list(map(self._task, chosen, given))
        models = {
            task.base: each.base_D for task, each in zip(tasks, given, strict=True)
        }
        places, fits = self._computes.compute(tasks, models, self._most)
        for client, place in zip(chosen, places, strict=True):
            del waiting[client]
            self._done[client] = place
        if fits < self._most:
            self._most = fits
            _log.warning(
                "a stack did not fit into memory: from now on at most %d clients are "
                "trained together",
                fits,
            )

    def _task(self, client: int, waiting: Waiting) -> Task:
        return Task(
            client,
            waiting.seq,
            waiting.version,
            waiting.steps,
            self._kept.get(client),
            self.memories.get(client) if self._has_memory else None,
            self._recalled.get(client),
            waiting.density,
            waiting.wanted,
            waiting.group,
        )
