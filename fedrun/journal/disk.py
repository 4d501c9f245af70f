"""Turns errors of the disk into errors of the journal."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from fedcore.errors import IMPOSSIBLE, CorruptJournalError, DiskError, JournalError
from fedcore.text import brief
from fedrun.sqlite import ForeignSchemaError, message

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explain(file: Path, error: Exception) -> JournalError:
    """Returns an error of SQLite or of the operating system as a JournalError."""
    if isinstance(error, OSError):
        return _of_system(file, error)
    text = message(error)
    if isinstance(error, ForeignSchemaError):
        return CorruptJournalError(f"{file} {text}")
    if "malformed" in text or "not a database" in text:
        return CorruptJournalError(f"{file}: {text}")
    if "readonly" in text or "unable to open" in text:
        return DiskError(f"{file}: cannot be written: {text}")
    if "full" in text or "No space" in text:
        return DiskError(f"{file}: the disk is full")
    if "locked" in text:
        return JournalError(f"{file}: another server uses this journal")
    return DiskError(f"{file}: {text}")


def _of_system(file: Path, error: OSError) -> JournalError:
    text = error.strerror or str(error)
    if error.errno in _FULL or "No space" in text:
        return DiskError(f"{file}: the disk is full")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return DiskError(f"{file}: cannot be written: {text}")
    return DiskError(f"{file}: {text}")


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turns errors in a block that writes ``file`` into JournalErrors."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise explain(file, error) from error


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turns errors in a block that reads ``file`` into JournalErrors."""
    try:
        yield
    except OSError as error:
        reason, place = error.strerror or str(error), error.filename or file
        raise JournalError(f"{place}: cannot be read: {reason}") from error


@contextmanager
def making_sense_of(what: str) -> Iterator[None]:
    """Turns errors in a block that takes over what a file says into JournalErrors.

    Args:
        what: names the file, or its part, at the beginning of the message.

    Raises:
        CorruptJournalError: what it says cannot be.
    """
    try:
        yield
    except IMPOSSIBLE as error:
        raise impossible(what, error) from error


def impossible(what: str, error: Exception) -> CorruptJournalError:
    """Returns an error: a checksum is right, and the content is impossible."""
    why = brief(str(error)) or "it contradicts what came before"
    return CorruptJournalError(f"{what} cannot be: {type(error).__name__}: {why}")
