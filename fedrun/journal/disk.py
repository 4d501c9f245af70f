"""What a disk says when it fails, as errors of the journal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from fedcore.errors import CorruptJournalError, JournalError


def explained(file: Path, error: Exception) -> JournalError:
    """What an error of SQLite or of the operating system means."""
    text = str(error)
    if "malformed" in text or "not a database" in text:
        return CorruptJournalError(f"{file}: {text}")
    if (
        "readonly" in text
        or "unable to open" in text
        or isinstance(error, PermissionError)
    ):
        return JournalError(f"{file}: cannot be written: {text}")
    if "full" in text or "No space" in text:
        return JournalError(f"{file}: the disk is full")
    if "locked" in text:
        return JournalError(f"{file}: another server uses this journal")
    return JournalError(f"{file}: {text}")


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """A file is written in this block; what goes wrong is a JournalError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise explained(file, error) from error
