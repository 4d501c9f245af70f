"""The recorder sees everything: what is computed from its log is what is there."""

from pathlib import Path

import pytest

from tests.power.disk import Disk
from tests.power.drive import STORIES
from tests.power.recorder import Kind, compiler, read_log, run_recorded

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.mark.parametrize("story", STORIES)
def test_a_log_replayed_whole_gives_the_files_that_are_there(
    story: str, tmp_path: Path
) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    root.mkdir()
    run_recorded("tests.power.drive", [story, str(root), "3"], root, log)
    disk = Disk()
    kinds = set()
    for operation in read_log(log):
        disk.apply(operation)
        kinds.add(operation.kind)
    assert kinds >= {Kind.CREATE, Kind.MKDIR, Kind.WRITE, Kind.SYNC, Kind.RENAME}
    there = {
        path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
        if not path.name.endswith("-shm")
    }
    assert disk.whole() == there
