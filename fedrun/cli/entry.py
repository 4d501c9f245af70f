"""Starts and ends the commands, whatever the terminal and the user's code are.

Ctrl-C while they are imported prints no traceback. A terminal that cannot show a
character shows another one. A thread of the user's code that keeps a process after its
command has ended is named.
"""

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

SENTENCE = b"interrupted; the command has not finished\n"
PATIENCE = 2.0  # seconds that threads have to end by themselves


def start(module: str) -> None:
    """Imports a command, and runs it.

    Args:
        module: where the command is, as ``main``.
    """
    with _ends_at_once():
        main = import_module(module).main
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        main()
    finally:
        _let_threads_end()


def _let_threads_end() -> None:
    """Names the threads that still run after a while; Ctrl-C now ends the process."""
    if not _other_threads():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_name_threads, daemon=True).start()


def _name_threads() -> None:
    time.sleep(PATIENCE)
    if names := _other_threads():
        said = f"the command has ended, and waits for threads of the app: {names}\n"
        os.write(2, said.encode(errors="replace"))


def _other_threads() -> str:
    """Returns the names of the threads that keep this process from its end."""
    main = threading.main_thread()
    running = (each for each in threading.enumerate() if not each.daemon)
    return ", ".join(each.name for each in running if each is not main)


@contextmanager
def _ends_at_once() -> Iterator[None]:
    """Ends the process on Ctrl-C in the block, with a sentence and status 1.

    An exception would pass through the imports of libraries, which turn it into errors
    of their own.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # a shell's & ignores it
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, SENTENCE)
    os._exit(1)
