"""What a folder of a stranger may hold in place of a file."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises where the block computes for longer, or waits for ever, as for a pipe.

    Seconds of CPU count, so that a busy machine changes nothing. Whoever waits takes
    none: what is not through after six times as long on the clock waits for ever.
    """

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs: not through within {seconds:g} s")

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, 6 * seconds),
    }
    before = {number: signal.signal(number, late) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 108 characters
    try:
        with closing(socket.socket(socket.AF_UNIX)) as it:
            it.bind(path.name)
    finally:
        os.chdir(here)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    """To a file of somebody else's."""
    foreign = path.parent / "foreign"
    foreign.write_bytes(b"mine")
    path.symlink_to(foreign)


def a_device(path: Path) -> None:
    """A link to one, since only root can make one."""
    path.symlink_to("/dev/zero")


def a_loop(path: Path) -> None:
    path.symlink_to(path)


def a_hole(path: Path) -> None:
    """A file of a petabyte with nothing in it."""
    path.touch()
    os.truncate(path, 1 << 43)


ODD: tuple[Callable[[Path], None], ...] = (
    a_pipe,
    a_socket,
    a_folder,
    a_link,
    a_device,
    a_loop,
    a_hole,
)
