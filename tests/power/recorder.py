"""Records what a process does to its files: a C library that stands before libc."""

import ctypes
import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

_SOURCE = Path(__file__).with_name("recorder.c")
_HEAD = struct.Struct("<B3xIIIQQ")
REPOSITORY = Path(__file__).parents[2]


class Kind(IntEnum):
    """What was done; the numbers are those of recorder.c."""

    MARK = 1
    CREATE = 2
    MKDIR = 3
    UNLINK = 4
    RMDIR = 5
    RENAME = 6
    WRITE = 7
    TRUNCATE = 8
    EXTEND = 9
    SYNC = 10
    SYNC_FAILED = 11
    UNSUPPORTED = 12
    OPEN = 13  # of a file that is there already


class Operation(NamedTuple):
    """One entry of the log."""

    kind: Kind
    path: str
    other: str  # the new name
    inode: int
    offset: int  # of a write; the size for TRUNCATE, the least size for EXTEND
    data: bytes


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


@functools.cache
def library() -> Path:
    """The compiled recorder; it lasts as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="recorder-")
    _FOLDERS.append(folder)
    built = Path(folder.name) / "recorder.so"
    command = [compiler() or "cc", "-O2", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, "-o", str(built), str(_SOURCE)], check=True)
    return built


_FOLDERS: list["tempfile.TemporaryDirectory[str]"] = []


def memory_folder() -> Path | None:
    """Where files are fast, if there is such a place."""
    shm = Path("/dev/shm")
    return shm if shm.is_dir() else None


def run_recorded(module: str, arguments: Sequence[str], root: Path, log: Path) -> None:
    """Runs ``python -m module`` and records what it does below ``root``.

    Raises:
        AssertionError: it failed.
    """
    environment = os.environ | {
        "LD_PRELOAD": str(library()),
        "RECORDER_ROOT": str(root),
        "RECORDER_LOG": str(log),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "protos")]),
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def read_log(log: Path) -> Iterator[Operation]:
    """The operations of a log, in order.

    Raises:
        AssertionError: it holds an operation that a disk cannot be computed from.
    """
    content, at = log.read_bytes(), 0
    while at < len(content):
        kind, path, other, data, inode, offset = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        texts = []
        for size in (path, other):
            texts.append(content[at : at + size].decode())
            at += size
        blob = content[at : at + data]
        at += data
        operation = Operation(Kind(kind), texts[0], texts[1], inode, offset, blob)
        assert operation.kind is not Kind.UNSUPPORTED, f"not recorded: {operation}"
        yield operation


# ------------------------------------------------- inside the recorded process


@functools.cache
def _loaded() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def mark(text: str) -> None:
    """Writes a note into the log; nothing happens in a process without a recorder."""
    if hasattr(_loaded(), "recorder_mark"):
        data = text.encode()
        _loaded().recorder_mark(data, ctypes.c_size_t(len(data)))


SHORT, KILLED = 0, -1  # beside the errors of the system: a short write, a SIGKILL
CHANGES = (
    Kind.CREATE,
    Kind.MKDIR,
    Kind.UNLINK,
    Kind.RENAME,
    Kind.WRITE,
    Kind.TRUNCATE,
    Kind.EXTEND,
    Kind.SYNC,
)  # the calls that can be made to fail


def fail(kinds: Sequence[Kind], nth: int, error: int, many: int = 1) -> None:
    """Makes calls fail: from the ``nth`` of these kinds on, ``many`` of them."""
    mask = sum(1 << kind for kind in kinds)
    _loaded().recorder_fail(
        ctypes.c_uint32(mask), ctypes.c_long(nth), ctypes.c_long(many), error
    )


def failed() -> int:
    """How many calls failed since :func:`fail`."""
    _loaded().recorder_failed.restype = ctypes.c_long
    return int(_loaded().recorder_failed())
