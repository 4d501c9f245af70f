"""What a disk says, in words for whoever runs a server."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest
from safetensors import SafetensorError

from fedcore.errors import CorruptJournalError, DiskError, JournalError
from fedrun.journal.disk import explain, reading, writing

FILE = Path("journal.sqlite3")


def of_system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (of_system(errno.ENOSPC), DiskError, "the disk is full"),
        (of_system(errno.EDQUOT), DiskError, "the disk is full"),
        (of_system(errno.EFBIG), DiskError, "the disk is full"),
        (OSError("No space left on device"), DiskError, "the disk is full"),
        (of_system(errno.EACCES), DiskError, "cannot be written: Permission denied"),
        (of_system(errno.EROFS), DiskError, "cannot be written: Read-only file system"),
        (of_system(errno.EIO), DiskError, "Input/output error"),
        (OSError("a bad day"), DiskError, "a bad day"),
        (
            sqlite3.DatabaseError("database disk image is malformed"),
            CorruptJournalError,
            "database disk image is malformed",
        ),
        (
            sqlite3.DatabaseError("file is not a database"),
            CorruptJournalError,
            "file is not a database",
        ),
        (
            sqlite3.OperationalError("attempt to write a readonly database"),
            DiskError,
            "cannot be written: attempt to write a readonly database",
        ),
        (
            sqlite3.OperationalError("unable to open database file"),
            DiskError,
            "cannot be written: unable to open database file",
        ),
        (
            sqlite3.OperationalError("database or disk is full"),
            DiskError,
            "the disk is full",
        ),
        (SafetensorError("I/O error: No space left"), DiskError, "the disk is full"),
        (
            sqlite3.OperationalError("database is locked"),
            JournalError,
            "another server uses this journal",
        ),
        (sqlite3.OperationalError("disk I/O error"), DiskError, "disk I/O error"),
    ],
    ids=str,
)
def test_each_error_has_its_words(
    error: Exception, kind: type[JournalError], words: str
) -> None:
    found = explain(FILE, error)
    assert type(found) is kind
    assert str(found) == f"{FILE}: {words}"


def test_only_what_the_disk_says_is_explained() -> None:
    for error in (of_system(errno.EIO), SafetensorError("a bad day")):
        with pytest.raises(DiskError) as caught, writing(FILE):
            raise error
        assert caught.value.__cause__ is error
    with pytest.raises(KeyError), writing(FILE):
        raise KeyError


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(JournalError) as caught, reading(FILE):
        raise of_system(errno.EIO)
    assert type(caught.value) is JournalError
    assert str(caught.value) == f"{FILE}: cannot be read: Input/output error"
    with pytest.raises(JournalError, match="cannot be read: a bad day"), reading(FILE):
        raise OSError("a bad day")
