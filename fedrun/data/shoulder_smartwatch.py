"""Shoulder exercises on a smartwatch: ten people, seven exercises, six channels.

Burns, Leung, Hardisty, Whyne, Henry, McLachlin, "Shoulder Physiotherapy Exercise
Recognition: Machine Learning the Inertial Signals from a Smartwatch", Physiological
Measurement 39, 2018, arXiv 1802.01489; the data of ``seglearn`` (BSD-3). The people are
natural clients: a model per person fits its owner, and fails the others.
"""

from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedrun.data.archive import Archive, reading
from fedrun.data.folder import data_file

FILE = "shoulder_smartwatch.npz"
_ORIGIN = (
    "it holds windows x (N, 100, 6) of the recordings in seglearn's load_watch(), 100 "
    "samples long and 50 apart, with scale (6,), y (N,) and client (N,), 1 to 10"
)
_KEPT = 0.8  # of a person's windows of a class, the first ones; then comes the test


class Exercises(NamedTuple):
    """Windows of one split."""

    x: npt.NDArray[np.float32]  # (N, 6, 100): acceleration and rotation, 50 Hz
    y: npt.NDArray[np.int64]  # the exercise, 0 to 6
    people: npt.NDArray[np.int64]  # whose it is, 1 to 10


def shoulder_smartwatch(
    split: Literal["train", "test"] = "train", *, folder: str | Path | None = None
) -> Exercises:
    """Returns the first 80 % of each person's windows of an exercise, or the last ones.

    Windows overlap by half: one between the two is left out. Equal calls return the
    very same arrays, which cannot be written to; ``by_column(people)`` makes clients.

    Args:
        split: which windows.
        folder: holds ``shoulder_smartwatch.npz``; without it, the environment variable
            ``LATECOMER_DATA`` says where.

    Raises:
        WorkloadError: the file is not there, or holds something else.
    """
    if split not in ("train", "test"):
        raise WorkloadError(f"shoulder_smartwatch has 'train' and 'test', no {split!r}")
    return _read(data_file(folder, FILE, _ORIGIN))[split]


@lru_cache(1)
def _read(path: Path) -> dict[str, Exercises]:
    with reading(path, _ORIGIN):
        raw = Archive(path)
        x = (raw.column("x") * raw.column("scale")).astype(np.float32)
        x = x.transpose(0, 2, 1)
        y = raw.column("y").astype(np.int64)
        people = raw.column("client").astype(np.int64)
    x[:, 3:] /= 4  # the gyroscope, to the size of the accelerometer
    train, test = np.zeros(len(y), bool), np.zeros(len(y), bool)
    for person in np.unique(people):
        for label in np.unique(y):
            rows = np.flatnonzero((people == person) & (y == label))
            kept = int(len(rows) * _KEPT)
            train[rows[:kept]] = True
            test[rows[kept + 1 :]] = True
    parts = {
        name: Exercises(np.asarray(x[rows], order="C"), y[rows], people[rows])
        for name, rows in (("train", train), ("test", test))
    }
    for part in parts.values():
        for array in part:
            array.setflags(write=False)
    return parts
