"""Opens and writes plain files, and nothing else that may have their names.

A folder that somebody else has made may hold a link to another file, a pipe, a device,
or a file of any size. What is read is a regular file of bounded size. What is written
is a file of its folder: a link in its place is replaced, and never followed.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

MOST_TEXT = 64 << 20  # bytes of a file that a program wrote as text
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_LARGE, _DENSE, _BLOCK = 1 << 30, 8, 512  # bytes; the share on disk; of st_blocks
_PRIVATE, _PUBLIC = 0o600, 0o666  # before the umask
_AT_ONCE = 1 << 20


def kind_of(mode: int) -> str:
    """Returns what a file of this mode is, in words; empty: a regular file."""
    return next((kind for is_it, kind in _KINDS if is_it(mode)), "")


def require_regular(path: Path, *, links: bool = True) -> os.stat_result:
    """Checks that a path is a regular file; returns what is known of it.

    A large file that is nearly empty on the disk is none: to read it would fill memory
    with what nobody wrote.

    Args:
        path: of the file.
        links: it may be a link to one.

    Raises:
        OSError: there is none, or it is something else; the message says what.
    """
    found = path.stat() if links else path.lstat()
    _require_regular(path, found.st_mode)
    if found.st_size > _LARGE and _DENSE * _BLOCK * found.st_blocks < found.st_size:
        raise _refusal(path, f"claims {found.st_size:,} bytes, and has hardly any")
    return found


def open_to_read(path: Path, *, links: bool = True) -> int:
    """Opens a regular file, and never waits for another process; returns a descriptor.

    Args:
        path: of the file.
        links: it may be a link to one.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    require_regular(path, links=links)  # to open a device may move it
    return _regular(path, os.O_RDONLY | (0 if links else os.O_NOFOLLOW), 0)


def open_to_write(path: Path, flags: int = 0, mode: int = _PRIVATE) -> int:
    """Opens a regular file of its folder, or makes one; returns a descriptor.

    Args:
        path: of the file; a link is refused.
        flags: beside those to read, to write and to make it.
        mode: of a file that is made.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    with contextlib.suppress(FileNotFoundError):
        require_regular(path, links=False)
    return _regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flags, mode)


def read_plain(path: Path, most: int = MOST_TEXT, *, links: bool = True) -> bytes:
    """Returns what a regular file holds.

    Args:
        path: of the file.
        most: the bytes that it may have.
        links: it may be a link to one.

    Raises:
        OSError: it cannot be read, is something else, or is larger.
    """
    descriptor, parts, size = open_to_read(path, links=links), [], 0
    try:
        known = os.fstat(descriptor).st_size
        while size <= most >= known and (part := os.read(descriptor, _AT_ONCE)):
            parts.append(part)
            size += len(part)
    finally:
        os.close(descriptor)
    require_size(path, max(size, known), most)
    return b"".join(parts)


def require_size(path: Path, size: int, most: int) -> None:
    """Checks that a file is not larger than what is read of one.

    Raises:
        OSError: it is.
    """
    if size > most:
        raise _refusal(path, f"has {size:,} bytes; at most {most:,} are read")


def memory() -> int:
    """Returns the bytes of this machine's memory: no file to be loaded is larger."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextlib.contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yields an empty file beside a path, which takes its place if the block succeeds.

    A link in the place is replaced, too; the file that it leads to stays as it is.

    Args:
        path: of the file to write.
        private: other users cannot read it.

    Raises:
        OSError: it cannot be written, or the path is no file.
    """
    with contextlib.suppress(FileNotFoundError):
        require_regular(path)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # a link, or what an interruption left
    mode = _PRIVATE if private else _PUBLIC
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, mode)
    except OSError as error:
        error.filename = str(path)
        raise
    mode = os.fstat(descriptor).st_mode & 0o777  # as the umask has it
    os.close(descriptor)
    try:
        yield temporary
        temporary.chmod(mode)  # a library may have made the file anew
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()  # it would take the room that others need
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)  # which a user has named
        raise


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Writes a text file in UTF-8, whole or not at all, and follows no link.

    Raises:
        OSError: it cannot be written, or the path is no file.
    """
    with replacing(path, private=private) as temporary:
        temporary.write_bytes(text.encode(errors="backslashreplace"))


def make_own(folder: Path) -> Path:
    """Makes a folder, and those above it; returns it.

    Raises:
        OSError: it is a link, which leads somewhere else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        raise _refusal(folder, "is a link; expected a folder")
    return folder


def remove_tree(folder: Path) -> None:
    """Removes a folder with what is in it, as far as that is possible, or a link."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _regular(path: Path, flags: int, mode: int) -> int:
    """Opens a file; a pipe or a device that has just taken its place is refused."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind := kind_of(mode):
        raise _refusal(path, f"is {kind}; expected a file")


def _refusal(path: Path, text: str) -> OSError:
    return OSError(errno.EINVAL, text, str(path))
