"""What a folder of a stranger may hold in place of a file."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path


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
