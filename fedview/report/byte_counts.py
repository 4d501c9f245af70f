"""Counts the bytes transferred up to each moment, and dates versions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedview.report.downsample import Floats, floats
from fedview.results import Results

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ByteCounts:
    """The exchanges of one direction, in order of time."""

    seconds: Floats
    nbytes: Numbers
    dense: int  # bytes of one uncompressed exchange

    @cached_property
    def total(self) -> int:
        """All bytes."""
        return int(self.nbytes.sum())

    @cached_property
    def exchanges(self) -> int:
        """The number of transfers that had bytes."""
        return int((self.nbytes > 0).sum())

    @property
    def uncompressed(self) -> int:
        """The bytes of the same exchanges as float32."""
        return self.exchanges * self.dense

    def up_to(self, seconds: Floats) -> Floats:
        """Returns the bytes up to each of these moments."""
        return self._sums(self.nbytes, seconds)

    def dense_up_to(self, seconds: Floats) -> Floats:
        """Returns the bytes up to each moment, as if no exchange were compressed."""
        return self._sums(np.where(self.nbytes > 0, self.dense, 0), seconds)

    def _sums(self, each: Numbers, seconds: Floats) -> Floats:
        sums = np.concatenate([[0], np.cumsum(each)]).astype(np.float64)
        return sums[np.searchsorted(self.seconds, seconds, side="right")]


def uploads(results: Results) -> ByteCounts:
    """Counts the bytes of updates that got a verdict."""
    table = results.updates
    return _counts(table.get("seconds", []), table.get("bytes", []), results)


def downloads(results: Results) -> ByteCounts:
    """Counts the bytes of models that were sent with tasks."""
    table = results.tasks
    return _counts(table.get("seconds", []), table.get("bytes", []), results)


def _counts(seconds: list[float], nbytes: list[int], results: Results) -> ByteCounts:
    dense = 4 * results.dim
    return ByteCounts(floats(seconds), np.array(nbytes, np.int64), dense)


def times_of_versions(results: Results, versions: list[int]) -> Floats:
    """Returns when versions were published, in seconds; version 0 at 0."""
    table = results.versions
    known: dict[int, float] = {0: 0.0}
    pairs = zip(table.get("version", []), table.get("seconds", []), strict=True)
    known.update(pairs)
    return np.array([known.get(v, np.nan) for v in versions])
