"""Delay-adaptive dampening: a late update counts in proportion to 1/τ at most.

λ = min((1 + τ)^-a, m / (1 + τ)).

While an update is computed, τ versions are made, each of which moves the model by λ of
an update. With a = ½ alone, as in FedBuff, that is √τ updates in all, without a bound:
15 where 1,000 clients train at a time and 4 updates make a version. Here it is m at
most. Asynchronous SGD converges if its rate is kept below a constant by the delay:
Koloskova, Stich, Jaggi, "Sharper Convergence Guarantees for Asynchronous SGD", NeurIPS
2022, arXiv 2206.08307, and Mishchenko, Bach, Even, Woodworth, "Asynchronous SGD Beats
Minibatch SGD Under Arbitrary Delays", NeurIPS 2022, arXiv 2206.07638.

We depart from both: they keep early updates at one rate, which is a = 0, and take m
from the smoothness of the loss or the number of clients in flight. Here m is a setting.
"""

from typing import Literal

from pydantic import Field

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class DelayAdaptive(StalenessConfig):
    """λ = min((1 + τ)^-exponent, limit / (1 + τ))."""

    kind: Literal["delay_adaptive"] = "delay_adaptive"
    exponent: float = Field(default=0.5, ge=0)
    """a, for updates that are not very late."""
    limit: float = Field(default=5.0, ge=1)
    """m, how many updates the model may move by while one is computed."""

    def build(self) -> StalenessPolicy:
        """Returns the policy."""

        def weigh(staleness: int) -> float:
            late = 1.0 + staleness
            return float(min(late**-self.exponent, self.limit / late))

        return memoryless(weigh)
