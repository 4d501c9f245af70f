"""A worker of a silo: a process that reads its shards and computes their gradients."""

import os
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

from fedclient.silo.answer import Answer, Job, answer, digests
from fedcore.coding import gradient_code
from fedcore.errors import WorkloadError
from fedcore.samples import ArraySamples, Samples, Subset, take_rows
from fedcore.typing import Counts, Indices
from fedcore.user_code import Failure, user_code
from fedcore.workload import Client
from fedrun.app import load_app

SETTING = "--workers"


class Blueprint(NamedTuple):
    """The data from which a worker is made."""

    app: str
    device: str | None
    client: Client
    workers: int
    stragglers: int
    worker: int
    """Its number, from 0."""


class Ready(NamedTuple):
    """The message that a worker has read its shards."""

    digests: dict[int, str]
    """The fingerprints by shard; see :func:`fedclient.silo.answer.digests`."""


def main(handle: int) -> None:
    """Computes until the other end closes the connection.

    Args:
        handle: the file descriptor of the connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C
    connection = Connection(handle)
    blueprint: Blueprint = connection.recv()
    jobs = queue.SimpleQueue[Job]()
    threading.Thread(target=_listen, args=(connection, jobs), daemon=True).start()
    try:
        compute = _prepare(blueprint, connection)
    except BaseException as error:  # noqa: BLE001 -- the client gets it
        connection.send(Failure.of(error))
        return
    while True:
        found = compute(jobs.get())
        try:
            connection.send(found)
        except OSError:
            return


def _listen(connection: Connection, jobs: "queue.SimpleQueue[Job]") -> None:
    """Receives jobs; ends the process, even while it computes, without a client."""
    while True:
        try:
            jobs.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)


def _prepare(
    blueprint: Blueprint, connection: Connection
) -> Callable[[Job], Answer | Failure]:
    """Reads the data, reports its fingerprints, and returns the job function."""
    worker = blueprint.worker
    code = gradient_code(blueprint.workers, blueprint.stragglers)
    workload = load_app(blueprint.app)
    if blueprint.device is not None:
        workload = workload.on(blueprint.device)
    model = workload.flat()
    with user_code("train_data"):
        data = workload.train_data(blueprint.client)
        shards = code.parts(worker)
        samples = hold_shards(
            workload.samples(data, "train_data"), shards, code.workers
        )
        del data
        ready = Ready(digests(samples, code.workers, shards))
    connection.send(ready)

    def compute(job: Job) -> Answer | Failure:
        try:
            with user_code("training"):
                return answer(model, samples, code, worker, job)
        except BaseException as error:  # noqa: BLE001 -- the client gets it
            return Failure.of(error)

    return compute


def hold_shards(samples: Samples, shards: tuple[int, ...], count: int) -> Samples:
    """Returns samples of which only some shards are kept in memory.

    A data set that is read sample by sample is returned unchanged.

    Args:
        samples: the client's samples.
        shards: the shards to keep.
        count: the number of shards.
    """
    if not isinstance(samples, ArraySamples | Subset) or len(shards) == count:
        return samples
    return HeldSamples(samples, shards, count)


class HeldSamples:
    """Copies of some shards of arrays, found by their rows in the whole."""

    def __init__(
        self, samples: ArraySamples | Subset, shards: tuple[int, ...], count: int
    ) -> None:
        self._count = len(samples)
        rows = np.arange(self._count)
        self._rows = rows[np.isin(rows % count, shards)]
        places = samples.rows[self._rows] if isinstance(samples, Subset) else self._rows
        self._held = ArraySamples(
            take_rows(samples.x, places), take_rows(samples.y, places)
        )

    def __len__(self) -> int:
        """Returns the number of the client's samples."""
        return self._count

    def batch(self, rows: Indices) -> tuple[object, object]:
        """Returns the inputs and targets of these rows.

        Raises:
            WorkloadError: a row belongs to another shard.
        """
        return self._held.batch(self._places(rows))

    def label_counts(self, rows: Indices) -> Counts | None:
        """Returns how often each class is among these rows."""
        return self._held.label_counts(self._places(rows))

    def _places(self, rows: Indices) -> Indices:
        places = np.searchsorted(self._rows, rows)
        inside = np.minimum(places, max(0, len(self._rows) - 1))
        if len(rows) and not np.array_equal(self._rows[inside], rows):
            raise WorkloadError("a row was asked of a worker that does not hold it")
        return np.asarray(places, np.int64)
