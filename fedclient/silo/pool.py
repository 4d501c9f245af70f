"""All workers of a silo: hands out steps, and decodes as soon as enough answered."""

import logging
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from fedclient.silo.answer import Answer, Job, decode_answer
from fedclient.silo.process import MOST_STARTS, WorkerProcess
from fedclient.silo.worker import SETTING, Blueprint, Ready
from fedcore.coding import GradientCode
from fedcore.errors import StoppedError, WorkloadError
from fedcore.rng import Key
from fedcore.typing import Indices, Seconds, Vector
from fedcore.user_code import Failure
from fedcore.workload import require_size

_log = logging.getLogger("fedclient")
_PATIENCE: Seconds = 10.0
"""The duration of a step after which a warning names the workers that are late."""


class SiloWorkers:
    """The workers of one client.

    Args:
        code: says how shards and answers are divided among the workers.
        blueprint: the blueprint of worker 0.
    """

    def __init__(self, code: GradientCode, blueprint: Blueprint) -> None:
        """Starts the workers without waiting for them."""
        self._code = code
        self._condition = threading.Condition()
        self._job: Job | None = None
        self._step, self._largest = 0, 0
        self._longest: Seconds = 0.0  # the longest step with no worker late
        self._answers: dict[int, Answer] = {}
        self._raised: tuple[int, Failure] | None = None
        self._given_up: dict[int, Failure | str] = {}
        self._expected: Mapping[int, str] | None = None
        self._ready: dict[int, Ready] = {}
        self._is_closed = False
        self._workers = [
            WorkerProcess(blueprint._replace(worker=worker), self)
            for worker in range(code.workers)
        ]
        _log.info(
            "%d workers hold %d of %d shards each (%s); the gradient is exact while "
            "%d of them are late or gone",
            code.workers,
            code.load,
            code.workers,
            code.kind.replace("_", " "),
            code.stragglers,
        )

    def __enter__(self) -> Self:
        """Returns the workers, which are running already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the workers."""
        self.close()

    @property
    def pids(self) -> list[int]:
        """The process ids of the started workers."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def expect(self, digests: Mapping[int, str]) -> None:
        """Sets the fingerprints of the shards that the client itself has read.

        Workers that have read other data raise an error in :meth:`gradient`.
        """
        with self._condition:
            self._expected = digests
            for worker, ready in self._ready.items():
                self._compare(worker, ready)

    def gradient(self, w_D: Vector, rows_B: Indices, key: Key) -> tuple[float, Vector]:
        """Returns the mean loss over a batch and its gradient.

        It waits until enough workers have answered, even if restarted workers take
        long; a warning names the workers that it waits for.

        Args:
            w_D: the model.
            rows_B: the batch, as rows of the client's data.
            key: the key for the model's random draws in this step.

        Raises:
            ConfigError: the batch has fewer samples than there are workers.
            WorkloadError: a worker's computation raised, or too many of them cannot be
                started.
            StoppedError: the workers were ended meanwhile.
        """
        self._largest = max(self._largest, len(rows_B))
        # A last, smaller batch is allowed.
        require_size(self._largest, self._code.workers, SETTING)
        with self._condition:
            self._step += 1
            self._answers, self._raised = {}, None
            self._job = Job(self._step, w_D, rows_B, key)
            self._condition.notify_all()
            try:
                self._raise_failures()
                self._wait_for_answers()
            finally:
                self._job = None
            answers = dict(self._answers)
        return decode_answer(self._code, answers)

    def _wait_for_answers(self) -> None:
        """Waits until the answers can be decoded; warns at growing intervals."""
        began, patience = time.monotonic(), max(_PATIENCE, 2 * self._longest)
        late = False
        while not self._code.can_decode(list(self._answers)):
            left = began + patience - time.monotonic()
            if left <= 0:
                late, patience = True, 2 * patience
                self._warn(time.monotonic() - began)
            else:
                self._condition.wait(left)
                self._raise_failures()
        if not late:
            self._longest = max(self._longest, time.monotonic() - began)

    def _warn(self, waited: Seconds) -> None:
        count = self._code.workers
        missing = [
            f"{worker} (process {self._workers[worker].pid})"
            for worker in range(count)
            if worker not in self._answers
        ]
        _log.warning(
            "a step has waited for %.0f s: %d of %d workers have not answered: %s; the "
            "gradient needs all but %d",
            waited,
            len(missing),
            count,
            ", ".join(missing),
            self._code.stragglers,
        )

    def _raise_failures(self) -> None:
        count = self._code.workers
        if self._is_closed:
            raise StoppedError("the workers of this client have ended")
        if self._raised is not None:
            worker, failure = self._raised
            raise failure.error(f"worker {worker} of {count}")
        for worker, why in self._given_up.items():
            if isinstance(why, Failure):
                raise why.error(f"worker {worker} of {count}")
        left = [each for each in range(count) if each not in self._given_up]
        if not self._code.can_decode(left):
            numbers = ", ".join(map(str, sorted(self._given_up)))
            raise WorkloadError(
                f"workers {numbers} of {count} did not answer after {MOST_STARTS} "
                f"starts ({next(iter(self._given_up.values()))}), and the gradient "
                f"needs all but {self._code.stragglers}"
            )

    def close(self) -> None:
        """Ends all workers."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        for worker in self._workers:
            worker.close()

    # ------------------------------------------------------- called by the workers

    def ready(self, worker: int, ready: Ready) -> None:
        """Receives a worker's fingerprints of its shards."""
        with self._condition:
            self._ready[worker] = ready
            self._compare(worker, ready)
            self._condition.notify_all()

    def _compare(self, worker: int, ready: Ready) -> None:
        expected = self._expected or {}
        if any(
            expected.get(each, seen) != seen for each, seen in ready.digests.items()
        ):
            error = WorkloadError(
                "train_data returned other samples than in the client itself; it must "
                "return the same ones each time it is called"
            )
            self._given_up[worker] = Failure.of(error)

    def next_job(self, worker: int, after: int) -> Job | None:
        """Waits for a step that this worker has not begun yet."""
        with self._condition:
            while not self._is_closed:
                if self._job is not None and self._job.step > after:
                    return self._job
                self._condition.wait()
        return None

    def put(self, worker: int, step: int, found: Answer | Failure) -> None:
        """Receives the result of a step; drops it if the step is over."""
        with self._condition:
            if self._job is None or step != self._job.step:
                return
            if isinstance(found, Failure):
                self._raised = (worker, found)
            else:
                self._answers[worker] = found
            self._condition.notify_all()

    def give_up(self, worker: int, failure: Failure | str) -> None:
        """Notes that a worker is not started again."""
        with self._condition:
            self._given_up[worker] = failure
            self._condition.notify_all()
