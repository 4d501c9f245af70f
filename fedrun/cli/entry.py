"""How the commands start: Ctrl-C while they are imported prints no traceback."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

SENTENCE = b"interrupted; the command has not finished\n"


def start(module: str) -> None:
    """Imports a command, and runs it.

    Args:
        module: where the command is, as ``main``.
    """
    with _ends_at_once():
        main = import_module(module).main
    main()


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
