"""One process at a time in a folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedcore.errors import JournalError, StateError
from fedrun.lock import FolderLock

HOLD = """
import sys
from pathlib import Path
from fedcore.errors import StateError
from fedrun.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]), StateError, "client")
print("held", flush=True)
sys.stdin.read()
"""


def test_the_second_one_is_told_who_was_first(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "new" / "folder", StateError, "client")
    with pytest.raises(
        StateError,
        match=rf"folder is in use by another client \(process {os.getpid()}\)$",
    ):
        FolderLock(tmp_path / "new" / "folder", StateError, "client")
    lock.release()
    lock.release()
    FolderLock(tmp_path / "new" / "folder", StateError, "client").release()


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(JournalError, match=rf"\(process {holder.pid}\)"):
            FolderLock(tmp_path, JournalError, "server")
        holder.kill()
    FolderLock(tmp_path, JournalError, "server").release()


def test_a_place_where_no_folder_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="file/in/it: cannot be written: Not a dir"):
        FolderLock(tmp_path / "file" / "in" / "it", StateError, "client")
