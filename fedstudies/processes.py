"""Runs simulations in several processes; the results do not depend on how many."""

import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from threading import Thread
from typing import TypeVar

from fedcore.errors import LatecomerError
from fedrun.cli.command import log_to_stderr
from fedrun.methods import Source, list_sources, load_source
from fedsim.engines.child_processes import deaf, end_with_parent

Task = TypeVar("Task")
Found = TypeVar("Found")

MOST_BY_DEFAULT = 4  # each process holds the model and the data


def usual_jobs() -> int:
    """Returns the number of cores of this process, at most four."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return min(cores or os.cpu_count() or 1, MOST_BY_DEFAULT)


def run_all(
    function: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: int,
) -> Generator[tuple[Task, Found]]:
    """Yields each task with its result, in the order in which they end.

    The first error ends all. Close the generator to leave it early: its processes end
    with it.

    Args:
        function: what to do with a task; another process imports it from its module.
        tasks: plain data, for another process.
        jobs: how many processes; with 1, this process does everything.

    Raises:
        LatecomerError: a process died, or the function raised it.
    """
    if jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, function(task)
        return
    with _processes(min(jobs, len(tasks))) as pool:
        with deaf():  # processes that begin here stay deaf
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
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, killed on an error or Ctrl-C."""
    others = active_children()
    is_verbose = logging.getLogger().isEnabledFor(logging.DEBUG)  # as with --verbose
    # A process that has started threads, as torch does, must not be forked.
    pool = ProcessPoolExecutor(
        jobs,
        get_context("spawn"),
        initializer=_begin,
        initargs=(is_verbose, list_sources()),
    )
    try:
        yield pool
    except BaseException:
        for process in active_children():
            if process not in others:
                process.kill()  # it ignores other signals
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(verbose: bool, sources: Sequence[Source]) -> None:
    """Prepares a process of the pool, with the files of methods of the user's own."""
    for source in sources:
        load_source(source)
    Thread(target=end_with_parent, daemon=True).start()
    log_to_stderr(verbose)
