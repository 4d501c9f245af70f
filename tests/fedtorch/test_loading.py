"""Samples are read ahead in other processes, as those of a ``DataLoader``."""

import os
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset
from torch.utils.data import Subset as Part

from fedcore.errors import UserCodeError, WorkloadError
from fedcore.samples import ArraySamples, IndexedSamples, Subset, evaluation_data
from fedrun.lock import FolderLock, is_locked
from tests.fedtorch.modules import X, Y, workload
from tests.fedtorch.test_workload import Rows, train


class Told(Rows):
    """Notes by whom each row is read; draws noise, as an augmentation does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, row: int) -> tuple[Any, int]:
        x, y = super().__getitem__(row)
        with (self._folder / str(os.getpid())).open("a") as file:
            file.write(f"{row}\n")
        return x + torch.randn(x.shape), y

    def readers(self) -> dict[int, int]:
        """How many rows each process has read."""
        files = self._folder.iterdir()
        return {int(each.name): len(each.read_text().split()) for each in files}


class Broken(Rows):
    """Fails at a row in the way that it is told."""

    def __init__(self, fails: Any) -> None:
        self._fails = fails

    def __getitem__(self, row: int) -> tuple[Any, int]:
        if row == 5:
            self._fails()
        return super().__getitem__(row)


def unreadable() -> None:
    raise OSError("scan-5.png: truncated")


def test_processes_read_each_sample_of_a_task_once(tmp_path: Path) -> None:
    data = Told(tmp_path)
    updates = [train(workload(num_workers=2), data) for _ in range(2)]
    readers = data.readers()
    assert os.getpid() not in readers
    assert len(readers) == 4  # two for each task, which end with it
    assert sum(readers.values()) == 2 * len(Y)
    # What a data set draws depends on the task alone.
    assert updates[0].delta_D.tobytes() == updates[1].delta_D.tobytes()


def test_who_reads_changes_nothing_of_an_update() -> None:
    updates = [train(workload(num_workers=workers), Rows()) for workers in (0, 2)]
    assert updates[0].delta_D.tobytes() == updates[1].delta_D.tobytes()
    assert updates[0].counts.tolist() == updates[1].counts.tolist()


def test_what_a_process_raises_is_told_as_if_it_were_this_one() -> None:
    for workers in (0, 1):
        with pytest.raises(UserCodeError) as caught:
            train(workload(num_workers=workers), Broken(unreadable))
        assert str(caught.value) == (
            "the data set Broken raised OSError: scan-5.png: truncated"
        )
        assert caught.value.__cause__ is not None


def test_a_process_that_is_killed_ends_the_task() -> None:
    def killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(UserCodeError, match="DataLoader worker"):
        train(workload(num_workers=1), Broken(killed))


@pytest.mark.parametrize("workers", [-1, 1.5, "2"])
def test_the_number_of_workers_is_a_number(workers: Any) -> None:
    with pytest.raises(WorkloadError, match=r"num_workers=.*: expected a whole number"):
        workload(num_workers=workers)


def test_a_folder_is_free_when_its_process_ends_although_a_forked_one_lives_on(
    tmp_path: Path,
) -> None:
    lock, (told, tell) = FolderLock(tmp_path, WorkloadError, "test"), os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b"here")
        signal.pause()
    try:
        assert os.read(told, 4) == b"here"
        assert is_locked(tmp_path)
        lock.release()
        assert not is_locked(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)


def test_tensors_in_a_data_set_are_taken_as_arrays() -> None:
    some, whole = workload(), TensorDataset(X, Y)
    assert isinstance(some.samples(whole, "train_data"), ArraySamples)
    part = some.samples(Part(Part(whole, [3, 1, 2]), [2, 0]), "train_data")
    assert isinstance(part, Subset)
    assert part.x is X
    assert part.rows.tolist() == [2, 3]
    x, y = part.batch(np.arange(2))
    assert torch.equal(x, X[[2, 3]])
    assert y.tolist() == Y[[2, 3]].tolist()
    changed = type("Changed", (TensorDataset,), {"__getitem__": lambda self, i: (0, 0)})
    for data in (changed(X, Y), Part(Rows(), [1])):
        assert isinstance(some.samples(data, "train_data"), IndexedSamples)


def test_inputs_that_are_several_tensors_arrive_as_several() -> None:
    class Several(Dataset[Any]):
        def __len__(self) -> int:
            return len(Y)

        def __getitem__(self, row: int) -> Any:
            return (X[row], {"y": Y[row]}), Y[row]

    (x, named), _ = workload().samples(Several(), "train_data").batch(np.arange(2))
    assert torch.equal(x, X[:2])
    assert torch.equal(named["y"], Y[:2])


def test_an_evaluation_reads_as_much_at_a_time_as_fits() -> None:
    class Large(Dataset[Any]):
        def __len__(self) -> int:
            return 200

        def __getitem__(self, row: int) -> Any:
            return torch.zeros(1).expand(1 << 18), row  # a megabyte, once it is copied

    samples = workload().samples(Large(), "test_data")
    batches = [y.tolist() for _, y in evaluation_data(samples)]
    assert [len(batch) for batch in batches] == [32, 63, 63, 42]
    assert [*chain.from_iterable(batches)] == [*range(200)]
