"""FedNova: FedAvg for clients that take unequal numbers of steps.

Wang et al., NeurIPS 2020. The rule is the aggregator's
(:mod:`fedcore.aggregators.fed_nova`); it is as good for any other recipe.
"""

from typing import ClassVar, Literal

from fedcore import aggregators
from fedcore.aggregators import AnyAggregator
from fedcore.recipes.base import SynchronousConfig


class FedNova(SynchronousConfig):
    """Synchronous, for clients that take unequal numbers of local steps."""

    paper: ClassVar[str] = "Wang et al., NeurIPS 2020"
    kind: Literal["fed_nova"] = "fed_nova"
    weigh_by: Literal["updates", "samples"] = "samples"
    aggregator: AnyAggregator = aggregators.FedNova()
