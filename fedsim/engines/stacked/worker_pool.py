"""Several workers, which get shares of the tasks and may be lost.

A worker keeps nothing that the pool does not know as well. If a worker is lost, a new
one gets the same share, and comes to the same results.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.pool import Pool
from fedcore.samples import arrays_of
from fedcore.user_code import Failure
from fedsim.engines.fates import ENOUGH
from fedsim.engines.stacked.compute import Base, Computed, Models, Task
from fedsim.engines.stacked.stack import Stack
from fedsim.engines.stacked.worker import Reply, Share, Trial, TrialReply

_log = logging.getLogger("fedsim")
_WHOLE_BYTES = 1 << 29  # bytes of arrays that each worker gets unchanged
_AHEAD = 4  # stacks for each worker, so that they rarely wait for one another
_SLACK = 1.02  # of its part of the work, before a worker gives of it to others


class LinkLostError(Exception):
    """The worker at the other end is gone; the message says what is known."""


class Link(Protocol):
    """The way to one worker."""

    def send(self, share: Share | Trial) -> None:
        """Sends a share or a trial.

        If the worker is gone, :meth:`receive` reports it.
        """

    def receive(self) -> Reply:
        """Returns the result of the share that was sent.

        Raises:
            LinkLostError: the worker is gone.
        """

    def close(self) -> None:
        """Ends the worker at once, even while it computes."""


class _Sent(NamedTuple):
    """Tasks that a worker computes."""

    worker: int
    places: list[int]  # their places among all tasks
    tasks: list[Task]
    models: Models


class _Known:
    """A worker, and the data that it has received."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.has_arrays = False
        self.clients: set[int] = set()
        self.bases: set[Base] = set()


class WorkerPool:
    """A place of computation with several workers.

    The division of tasks depends on the tasks alone. A client's tasks go to the same
    worker unless another one would have less to do.
    """

    def __init__(self, start: Callable[[], Link], count: int, pool: Pool) -> None:
        """Starts the workers; they come up while this process continues.

        Args:
            start: starts a worker.
            count: the number of workers.
            pool: the samples of all clients.
        """
        self.size, self._start, self._pool = _AHEAD * count, start, pool
        self._workers = [_Known(start()) for _ in range(count)]
        self._works = False  # whether a task was computed
        self._ends = 0  # tasks that have ended their workers

    def compute(self, tasks: Sequence[Task], models: Models, most: int) -> Computed:
        """Lets each worker compute its share of the tasks, at most ``most`` together.

        Raises:
            UserCodeError: a single task does not fit into memory, or none can be
                computed.
            LatecomerError: no worker answers.
        """
        loads = [task.steps for task in tasks]
        parts = dealt_out(loads, [task.client for task in tasks], len(self._workers))
        sent = [
            _Sent(worker, places, [tasks[place] for place in places], models)
            for worker, places in enumerate(parts)
            if places
        ]
        for part in sent:
            self._send(part, most)
        found: dict[int, tuple[Stack, int]] = {}
        failures: list[Failure] = []
        for part in sent:
            reply = self._receive(part, most)
            if isinstance(reply, Failure):
                failures.append(reply)
                continue
            most = min(most, reply.most)
            found.update(zip(part.places, reply.places, strict=True))
        if failures:
            raise failures[0].error()
        return Computed([found[place] for place in range(len(tasks))], most)

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._workers:
            worker.link.close()
        self._workers.clear()

    def _send(self, part: _Sent, most: int) -> None:
        """Sends tasks, with the data that the worker does not have."""
        worker, shared = self._workers[part.worker], self._pool.shared
        if shared is not None and _nbytes(shared) > _WHOLE_BYTES:
            shared = None
        arrays = None if worker.has_arrays else shared
        worker.has_arrays = shared is not None
        samples: dict[int, Any] = {}
        for task in part.tasks:
            if task.client not in worker.clients:
                worker.clients.add(task.client)
                samples[task.client] = self._samples_of(task.client, shared)
        needed = {task.base for task in part.tasks}
        fresh = {base: part.models[base] for base in needed - worker.bases}
        worker.bases = needed
        worker.link.send(Share(part.tasks, fresh, samples, most, arrays))

    def _samples_of(self, client: int, shared: Any) -> Any:
        """Returns a client's samples as a worker gets them; see :class:`Share`."""
        if self._pool.are_read([client]):
            return self._pool.size(client)
        rows, part = self._pool.rows_of(client), self._pool.part_of(client)
        return rows if shared is not None and not part.number else part.batch(rows)

    def _receive(self, part: _Sent, most: int, tries: int = 2) -> Computed | Failure:
        """Returns the reply; after repeated losses, sends ever smaller parts."""
        for left in reversed(range(tries)):
            try:
                reply = self._workers[part.worker].link.receive()
            except LinkLostError as error:
                reason = str(error)
            else:
                assert not isinstance(reply, TrialReply)
                self._works |= isinstance(reply, Computed)
                return reply
            self._replace(part.worker)
            if left:
                count = len(part.tasks)
                told = "%s; its %d tasks are computed again by another one"
                _log.warning(told, reason, count)
                self._send(part, most)
        if not self._works:
            self._require_answer(part.worker, reason)
        return self._apart(part, most, reason)

    def _apart(self, part: _Sent, most: int, reason: str) -> Computed | Failure:
        """Computes tasks in halves, so that a task that ends its worker is alone.

        If both halves succeed, all of them together were too many for the memory.
        """
        count = len(part.tasks)
        if count == 1:
            return Computed([(self._end(part, reason), 0)], most)
        ended, middle = self._ends, (count + 1) // 2
        found: list[tuple[Stack, int]] = []
        fits = min(most, middle)
        for some in (slice(middle), slice(middle, count)):
            half = part._replace(places=part.places[some], tasks=part.tasks[some])
            self._send(half, most)
            reply = self._receive(half, most, tries=1)
            if isinstance(reply, Failure):
                return reply
            found += reply.places
            fits = min(fits, reply.most)
        return Computed(found, most if self._ends > ended else fits)

    def _end(self, part: _Sent, reason: str) -> Stack:
        """Returns the result of a task that has ended its worker.

        Raises:
            UserCodeError: the first tasks did so too, and none was computed.
        """
        self._ends += 1
        told = (
            f"training ended its process: {reason}, perhaps for want of memory, or "
            "since the code ends it"
        )
        if not self._works and self._ends == ENOUGH:
            raise UserCodeError(f"the first {ENOUGH} clients cannot train: {told}")
        return Stack.failed(Failure(UserCodeError, told))

    def _replace(self, worker: int) -> None:
        """Starts another worker to replace one that was lost."""
        self._workers[worker].link.close()
        self._workers[worker] = _Known(self._start())

    def _require_answer(self, worker: int, reason: str) -> None:
        """Checks that a worker answers at all, without a task.

        Raises:
            LatecomerError: this worker is lost as well.
        """
        link = self._workers[worker].link
        link.send(Share([], {}, {}, 1))
        try:
            link.receive()
        except LinkLostError:
            raise LatecomerError(
                f"{reason}, and so did the next ones, before any has answered; in a "
                "script of your own, call latecomer.run under "
                '`if __name__ == "__main__":`'
            ) from None


def dealt_out(
    loads: Sequence[int], clients: Sequence[int], count: int
) -> list[list[int]]:
    """Returns the places of tasks by worker: equal loads, clients where they were.

    Example:
        >>> dealt_out([3, 1, 1, 1], [0, 2, 4, 1], 2)
        [[0], [1, 2, 3]]
    """
    parts: list[list[int]] = [[] for _ in range(count)]
    done = [0] * count
    fair = _SLACK * sum(loads) / count
    for place in sorted(range(len(loads)), key=lambda place: -loads[place]):
        worker = clients[place] % count
        if done[worker] + loads[place] > fair:
            worker = done.index(min(done))
        parts[worker].append(place)
        done[worker] += loads[place]
    return [sorted(part) for part in parts]


def _nbytes(arrays: tuple[Any, Any]) -> int:
    return sum(int(part.nbytes) for whole in arrays for part in arrays_of(whole))
