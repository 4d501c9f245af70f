"""Flexible participation: FedAvg for clients that do a part of their work.

Ruan et al., AISTATS 2021. The coefficients are the aggregator's
(:mod:`fedcore.aggregators.flexible_participation`), by default those of scheme C.
"""

from typing import ClassVar, Literal

from fedcore import aggregators
from fedcore.aggregators import AnyAggregator
from fedcore.recipes.base import SynchronousConfig


class FlexibleParticipation(SynchronousConfig):
    """Synchronous, for clients that do not always finish their local steps."""

    paper: ClassVar[str] = "Ruan et al., AISTATS 2021"
    kind: Literal["flexible_participation"] = "flexible_participation"
    weigh_by: Literal["updates", "samples"] = "samples"
    aggregator: AnyAggregator = aggregators.FlexibleParticipation()
