"""The client's end of one worker of a silo: starts and restarts its process."""

import logging
import os
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Protocol

from fedclient.silo.answer import Answer, Job
from fedclient.silo.worker import Blueprint, Ready
from fedcore.user_code import Failure

_log = logging.getLogger("fedclient")
_PATIENCE = 10.0  # seconds to wait for a killed process to end
MOST_STARTS = 5  # starts in a row without an answer after which a worker is given up


class Desk(Protocol):
    """The place where workers take their jobs and put their answers."""

    def ready(self, worker: int, ready: Ready) -> None:
        """Receives a worker's fingerprints of its shards."""

    def next_job(self, worker: int, after: int) -> Job | None:
        """Waits for a step later than ``after``; returns None at the end."""

    def put(self, worker: int, step: int, found: Answer | Failure) -> None:
        """Receives the result of a step, however late."""

    def give_up(self, worker: int, failure: Failure | str) -> None:
        """Notes that this worker is not started again."""


class WorkerProcess:
    """One worker, and a thread that talks to it and restarts it.

    Each worker has a thread of its own, so a worker that hangs holds up no other.
    """

    def __init__(self, blueprint: Blueprint, desk: Desk) -> None:
        """Starts the worker without waiting for it."""
        self._blueprint, self._desk = blueprint, desk
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards the things that close() ends
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The id of its current process; None if it has had none so far."""
        process = self._process
        return None if process is None else process.pid

    def close(self) -> None:
        """Kills the process and waits until it has ended."""
        self._closing.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.join(_PATIENCE)

    def _serve(self) -> None:
        try:
            self._talk()
        except Exception as error:  # noqa: BLE001 -- who waits for an answer raises it
            self._desk.give_up(self._blueprint.worker, Failure.of(error))

    def _talk(self) -> None:
        worker, starts = self._blueprint.worker, 0
        while not self._closing.is_set():
            starts += 1
            connection = self._start()
            if connection is None:
                return
            answered = False
            try:
                connection.send(self._blueprint)
                said = connection.recv()
                if isinstance(said, Failure):
                    self._desk.give_up(worker, said)
                    return
                self._desk.ready(worker, said)
                step = 0
                while (job := self._desk.next_job(worker, step)) is not None:
                    step = job.step
                    connection.send(job)
                    self._desk.put(worker, step, connection.recv())
                    answered = True
                return
            except (EOFError, OSError):
                status = self._end()
                if self._closing.is_set():
                    return
                starts = 0 if answered else starts
                if starts == MOST_STARTS:
                    _log.warning(
                        "worker %d of %d has ended with status %s at each of %d "
                        "starts; it starts no more",
                        worker,
                        self._blueprint.workers,
                        status,
                        starts,
                    )
                    self._desk.give_up(worker, f"it ended with status {status}")
                    return
                _log.warning(
                    "worker %d of %d has ended with status %s; it starts again",
                    worker,
                    self._blueprint.workers,
                    status,
                )
            finally:
                self._end()
                connection.close()

    def _start(self) -> Connection | None:
        """Starts the process; returns None if the worker was closed meanwhile."""
        ours, theirs = Pipe()
        with self._lock, theirs:
            if self._closing.is_set():
                ours.close()
                return None
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fedclient.silo", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # One thread each, unless the environment sets a number.
                env={"OMP_NUM_THREADS": "1", **os.environ},
                start_new_session=True,  # only the client itself handles Ctrl-C
            )
        return ours

    def _end(self) -> int | None:
        """Ends the process; returns its exit code."""
        assert self._process is not None
        self._process.kill()
        return self._process.wait(_PATIENCE)
