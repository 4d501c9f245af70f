"""Reads the samples of data sets as torch's ``DataLoader`` does."""

from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import current_process
from typing import Any

import numpy as np
import torch
from torch.utils import data as torch_data

from fedcore.samples import ReadAhead, Subset, Wanted
from fedcore.user_code import Failure


def arrays_in(data: Any) -> Any:
    """Returns the tensors of a ``TensorDataset`` of pairs, or of rows of one.

    They are what the data set would be read to sample by sample. Any other data are
    returned as they are.
    """
    if type(data) is torch_data.TensorDataset and len(data.tensors) == 2:
        return data.tensors
    if type(data) is torch_data.Subset:
        rows, whole = np.asarray(data.indices), arrays_in(data.dataset)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or (rows < 0).any():
            return data
        if isinstance(whole, Subset):
            return Subset(whole.x, whole.y, whole.rows[rows])
        if type(data.dataset) is torch_data.TensorDataset and whole is not data.dataset:
            return Subset(whole[0], whole[1], rows)
    return data


def collate_samples(items: Sequence[Any]) -> Any:
    """Stacks samples as a ``DataLoader`` does."""
    return torch_data.default_collate(list(items))


def read_ahead(num_workers: int) -> ReadAhead | None:
    """Returns what reads batches in so many processes; None without any.

    Args:
        num_workers: as of a ``DataLoader``.
    """
    return partial(_ahead, num_workers) if num_workers else None


def _ahead(num_workers: int, wanted: Sequence[Wanted]) -> Iterator[tuple[Any, Any]]:
    if not wanted:
        return
    if current_process().daemon:  # such a process may not start others
        for samples, rows in wanted:
            yield samples.batch(rows)
        return
    draws = torch.Generator()
    draws.manual_seed(torch.initial_seed())  # the task's; nothing of it is drawn
    loader = torch_data.DataLoader(
        _Batches(wanted),
        batch_size=None,
        collate_fn=_identity,
        num_workers=min(num_workers, len(wanted)),
        generator=draws,
    )
    for batch in loader:
        if isinstance(batch, Failure):
            raise batch.error()
        yield batch


class _Batches(torch_data.Dataset[Any]):
    """Batches by their number, as another process reads them."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted

    def __len__(self) -> int:
        return len(self._wanted)

    def __getitem__(self, number: int) -> tuple[Any, Any] | Failure:
        samples, rows = self._wanted[number]
        try:
            return samples.batch(rows)
        except Exception as error:  # noqa: BLE001 -- it is told, and raised there
            return Failure.of(error)


def _identity(batch: Any) -> Any:
    return batch
