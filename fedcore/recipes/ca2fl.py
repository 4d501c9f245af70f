"""CA2FL: FedBuff, calibrated by the last update of every client.

Wang et al., ICLR 2024, Algorithm 2. The cache is the aggregator's
(:mod:`fedcore.aggregators.ca2fl`); updates are not dampened by staleness.
"""

from typing import ClassVar, Literal

from fedcore import aggregators
from fedcore.aggregators import AnyAggregator
from fedcore.algorithm import AlgorithmConfig


class CA2FL(AlgorithmConfig):
    """Asynchronous, for clients that differ in their data and in their speed."""

    paper: ClassVar[str] = "Wang et al., ICLR 2024"
    kind: Literal["ca2fl"] = "ca2fl"
    aggregator: AnyAggregator = aggregators.CA2FL()
