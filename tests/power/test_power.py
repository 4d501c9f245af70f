"""A power cut at any moment: nothing promised is lost or doubled, and all starts."""

import errno
from pathlib import Path
from unittest.mock import patch

import pytest

from fedcore.errors import DiskError
from fedrun.journal.snapshots import Snapshots
from tests.power.cuts import recorded
from tests.power.drive import STORIES
from tests.power.recorder import compiler

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler"),
    pytest.mark.slow,
]
CUTS = 250  # of each story


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, marks=pytest.mark.quick if story == "rows" else ())
        for story in STORIES
    ],
)
def test_no_power_cut_breaks_a_promise(story: str) -> None:
    with recorded(story, 1) as recording:
        outcome = recording.cut(CUTS / len(recording.operations), seed=1)
        assert not outcome.violations, outcome.violations
        assert outcome.cuts > CUTS * 0.5


@pytest.mark.quick
def test_a_disk_that_fails_while_a_snapshot_goes_is_a_failing_disk(
    tmp_path: Path,
) -> None:
    failing = patch.object(Path, "unlink", side_effect=OSError(errno.EIO, "I/O error"))
    with failing, pytest.raises(DiskError, match=r"1\.safetensors: I/O error"):
        Snapshots(tmp_path).remove(1)
