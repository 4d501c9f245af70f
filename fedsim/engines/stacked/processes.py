"""Workers in other processes of this machine."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from threading import Thread, current_thread, main_thread
from weakref import finalize

from fedcore.user_code import Failure
from fedsim.engines.child_processes import deaf, end_with_parent
from fedsim.engines.stacked.channel import Channel
from fedsim.engines.stacked.threads import VARIABLES
from fedsim.engines.stacked.worker import Blueprint, Reply, Share, Trial, Worker
from fedsim.engines.stacked.worker_pool import LinkLostError

_PATIENCE = 5.0  # seconds to wait for a killed process to end


class ProcessLink:
    """The link to a worker in a process of its own."""

    def __init__(self, blueprint: Blueprint) -> None:
        """Starts the process without waiting for it."""
        ours, theirs = Pipe()
        with _one_thread(), _unheard():
            process = _context().Process(
                target=_serve, args=(theirs, blueprint, dict(os.environ)), daemon=True
            )
            process.start()
        theirs.close()
        self._process: BaseProcess = process
        self._channel = Channel(ours)
        self._end = finalize(self, _end, process)  # if it is forgotten

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid or 0

    def send(self, share: Share | Trial) -> None:
        """Sends a share or a trial."""
        with suppress(OSError):  # receive() will report it
            self._channel.send(share)

    def receive(self) -> Reply:
        """Waits for the result, and returns it.

        Raises:
            LinkLostError: the process has ended.
        """
        try:
            reply: Reply = self._channel.receive()
        except (EOFError, OSError) as error:
            self._process.join(_PATIENCE)
            status = self._process.exitcode
            raise LinkLostError(
                f"process {self.pid} has ended with status {status}"
            ) from error
        return reply

    def close(self) -> None:
        """Kills the process."""
        self._end()
        self._channel.close()


def _context() -> SpawnContext | ForkServerContext:
    """Returns the way in which processes start.

    A process that has started threads, as torch does, must not be forked. A fork server
    with one thread that has loaded the libraries can be forked: workers then start in
    hundredths of a second, and share the memory of the libraries.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    libraries = ["fedsim.engines.stacked.worker"]
    if "torch" in sys.modules:
        libraries += ["fedtorch.workload", "fedtorch.stacked"]
    context.set_forkserver_preload(libraries)
    return context


def _end(process: BaseProcess) -> None:
    process.kill()
    process.join(_PATIENCE)


def _serve(
    connection: Connection, blueprint: Blueprint, environment: dict[str, str]
) -> None:
    """Works in the child process until the other end closes the connection."""
    os.environ.update(environment)  # it may have changed since the server began
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=end_with_parent, daemon=True).start()
    channel = Channel(connection)
    worker: Worker | None = None
    reason: Failure | None = None
    try:
        worker = Worker(blueprint)
    except BaseException as error:  # noqa: BLE001 -- it is told when it is asked
        reason = Failure.of(error)
    while True:
        try:
            share: Share | Trial = channel.receive()
        except (EOFError, OSError):
            return
        channel.send(reason if worker is None else worker.answer(share))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Makes processes that start in the block compute with one thread."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _unheard() -> Iterator[None]:
    """Makes processes that start in the block ignore Ctrl-C, unlike this one."""
    if current_thread() is not main_thread():  # only the main thread can arrange for it
        yield
        return
    with deaf():
        yield
