"""The mean of the updates, weighted by samples and dampened by staleness.

McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1, in delta form:
agg = Σ λ_i·n_i·q_i / Σ n_i. Sums are taken in float32, in the order of arrival.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Literal

import numpy as np

from fedcore import payloads
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution
from fedcore.arrays import array_namespace, as_numpy, like
from fedcore.kernels import add_rows
from fedcore.typing import Row, Vector

_VALUES = itemgetter(0)  # of a row


class WeightedMean(AggregatorConfig):
    """Σ λ·n·q / Σ n."""

    kind: Literal["weighted_mean"] = "weighted_mean"

    def build(self) -> Aggregator:
        """Returns the aggregator."""
        return Aggregator(
            lambda dim: np.zeros(dim, np.float32), _accumulate, _finalize, fold=_fold
        )


def _accumulate(sum_D: Vector, update: Contribution) -> Vector:
    payloads.add(update.payload, sum_D, update.weight * update.samples)
    return sum_D


def _fold(sum_D: Vector, rows: Sequence[Row], shares: Sequence[float]) -> Vector:
    kinds = set(map(type, map(_VALUES, rows)))
    are_numpy = [issubclass(kind, np.ndarray) for kind in kinds]
    if any(are_numpy):
        if not all(are_numpy):  # a resumed run has loaded some of them
            rows = [(as_numpy(each), place) for each, place in rows]
        add_rows(rows, shares, sum_D)
        return sum_D
    rows_KD = array_namespace(rows[0][0]).stack([each[row] for each, row in rows])
    sum_D += as_numpy(like(np.array(shares, np.float32), rows_KD) @ rows_KD)
    return sum_D


def _finalize(sum_D: Vector, samples: float) -> Vector:
    sum_D /= np.float32(samples)
    return sum_D
