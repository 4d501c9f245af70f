"""``fedserver`` on a poor machine: few descriptors, a slow disk.

``python -m benchmarks.hostile.serve --descriptors 512 --delay 0.1 run CONFIG ...``
takes the arguments of ``fedserver`` after its own two options.
"""

import argparse
import os
import resource
import sqlite3
import sys
import time
from typing import Any

from fedserver.cli import main


def few_descriptors(most: int) -> None:
    """This process may never have more."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def slow_disk(delay: float) -> None:
    """Each flush takes so many seconds more."""

    class SlowConnection(sqlite3.Connection):
        def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
            if sql.strip().upper() == "COMMIT":
                time.sleep(delay)
            return super().execute(sql, *more)

    connect = sqlite3.connect

    def slow_connect(*words: Any, **more: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*words, factory=SlowConnection, **more)
        return made

    def slow(flush: Any) -> Any:
        def flushed(descriptor: int) -> None:
            time.sleep(delay)
            flush(descriptor)

        return flushed

    sqlite3.connect = slow_connect  # type: ignore[assignment]
    os.fsync, os.fdatasync = slow(os.fsync), slow(os.fdatasync)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--descriptors", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0)
    options, rest = parser.parse_known_args()
    if options.descriptors:
        few_descriptors(options.descriptors)
    if options.delay:
        slow_disk(options.delay)
    sys.argv = ["fedserver", *rest]
    main()
