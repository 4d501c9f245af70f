"""MIFA: rounds that wait for nobody, and count everybody.

Gu et al., NeurIPS 2021, Algorithm 1. The memory of updates is the aggregator's
(:mod:`fedcore.aggregators.mifa`). In the paper a round is made of the clients that are
there; here it is made of K of them, or of those that are in time.
"""

from typing import ClassVar, Literal

from fedcore import aggregators
from fedcore.aggregators import AnyAggregator
from fedcore.recipes.base import SynchronousConfig


class MIFA(SynchronousConfig):
    """Synchronous, for clients that are away for reasons that go with their data."""

    paper: ClassVar[str] = "Gu et al., NeurIPS 2021"
    kind: Literal["mifa"] = "mifa"
    aggregator: AnyAggregator = aggregators.MIFA()
