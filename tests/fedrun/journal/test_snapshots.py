"""Snapshots: what was written comes back, or is told to be damaged."""

from pathlib import Path

import numpy as np
import pytest

from fedcore.errors import CorruptJournalError, DiskError
from fedrun.files import load_arrays, save_arrays
from fedrun.journal.snapshots import Snapshots

SCALARS = {"version": 3, "names": ["ann"]}
ARRAYS = {"b": np.arange(3.0), "a": np.zeros((2, 2), np.float32)}


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots")
    assert snapshots.numbers() == []
    for number in (12, 3):
        snapshots.save(number, SCALARS, ARRAYS)
    assert snapshots.numbers() == [3, 12]
    scalars, arrays = snapshots.load(12)
    assert scalars == SCALARS
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert np.array_equal(array, ARRAYS[name])
    assert snapshots.path(3) == tmp_path / "snapshots" / "000000000003.safetensors"
    snapshots.remove(3)
    snapshots.remove(3)  # it may be gone
    assert snapshots.numbers() == [12]


@pytest.mark.parametrize("harm", ["state", "array", "name", "no state", "no check"])
def test_a_state_that_is_not_what_was_written_is_damaged(
    tmp_path: Path, harm: str
) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save(3, SCALARS, ARRAYS)
    arrays, metadata = load_arrays(snapshots.path(3))
    if harm == "state":
        metadata["latecomer.state"] = metadata["latecomer.state"].replace("3", "4")
    elif harm == "array":
        arrays["b"][1] = 7.0
    elif harm == "name":
        arrays["c"] = arrays.pop("b")
    else:
        del metadata["latecomer." + harm.removeprefix("no ")]
    save_arrays(snapshots.path(3), arrays, metadata)
    with pytest.raises(CorruptJournalError, match=r"checksum is wrong|snapshot 3: "):
        snapshots.load(3)


def test_a_state_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorruptJournalError, match=r"snapshot 3: .* no such file"):
        Snapshots(tmp_path).load(3)


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "000000000003.safetensors").mkdir()
    with pytest.raises(DiskError, match=r"000000000003.safetensors: Is a directory"):
        Snapshots(tmp_path).save(3, SCALARS, ARRAYS)
    with pytest.raises(DiskError, match=r"000000000003.safetensors: "):
        Snapshots(tmp_path).remove(3)
