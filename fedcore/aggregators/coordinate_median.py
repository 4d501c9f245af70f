"""The median of each coordinate: a minority cannot move it far.

Yin, Chen, Kannan, Bartlett, "Byzantine-Robust Distributed Learning: Towards
Optimal Statistical Rates", ICML 2018, Definition 1. Holds the whole buffer in
memory. Staleness dampens each update before the median is taken.
"""

from typing import Literal

import numpy as np

from fedcore.aggregators._stack import Stack, empty, keep, stack_values
from fedcore.aggregators.base import Aggregator, AggregatorConfig
from fedcore.typing import Vector


class CoordinateMedian(AggregatorConfig):
    """The median of each coordinate."""

    kind: Literal["coordinate_median"] = "coordinate_median"

    def build(self) -> Aggregator:
        """Returns the aggregator."""
        return Aggregator(empty, keep, _finalize)


def _finalize(stack: Stack, samples: float) -> Vector:
    return np.median(stack_values(stack), axis=0).astype(np.float32)
