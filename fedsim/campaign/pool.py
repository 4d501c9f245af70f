"""Simulations in several processes; what they come to does not depend on it."""

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import TypeVar

from fedcore.errors import LatecomerError
from fedrun.command import log_to_stderr

Task = TypeVar("Task")
Found = TypeVar("Found")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
MOST_BY_DEFAULT = 4  # each process holds the model and the data


def usual_jobs() -> int:
    """As many as this process may use at a time, within reason."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return min(cores or os.cpu_count() or 1, MOST_BY_DEFAULT)


def run_all(
    function: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: int,
    *,
    verbose: bool = False,
) -> Generator[tuple[Task, Found]]:
    """Each task with its result, as they end; the first error ends all.

    Close it, if it is left early: its processes end with it.

    Args:
        function: of a module, so that another process finds it.
        tasks: plain data, for another process.
        jobs: processes; with one, all is done in this one.
        verbose: of their warnings.
    """
    if jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, function(task)
        return
    with _processes(min(jobs, len(tasks)), verbose=verbose) as pool:
        with deaf():  # and so are the processes that begin here, for ever
            futures = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(futures):
            try:
                found = future.result()
            except BrokenProcessPool as error:
                raise LatecomerError(
                    "a process of the simulations has died, perhaps for want of "
                    "memory; --jobs 1 needs the least"
                ) from error
            yield futures[future], found


@contextmanager
def _processes(jobs: int, *, verbose: bool) -> Iterator[ProcessPoolExecutor]:
    """Processes that do not outlive an error, or a Ctrl-C."""
    others = active_children()
    # A process that has started threads, as torch does, must not be forked.
    pool = ProcessPoolExecutor(
        jobs, get_context("spawn"), initializer=_begin, initargs=(verbose,)
    )
    try:
        yield pool
    except BaseException:
        for process in active_children():
            if process not in others:
                process.kill()  # it is deaf to all else
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(verbose: bool) -> None:
    """The first thing that one of the processes does."""
    Thread(target=end_with_parent, daemon=True).start()
    log_to_stderr(verbose)


def end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def deaf() -> Iterator[None]:
    """A signal may reach a whole group of processes; the first of them answers it."""
    before = {which: signal.signal(which, signal.SIG_IGN) for which in SIGNALS}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM, too, raises KeyboardInterrupt here."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
