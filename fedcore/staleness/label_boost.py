"""Label boost: an update whose labels are rarer than usual counts for more.

After Damaskinos et al., "FLeet", Middleware 2020, arXiv 2006.07273, §2.3, where it is a
part of AdaSGD; here over any dampening Λ(τ): λ = min(1, Λ·max(1, s̄/s)). s is the
Bhattacharyya coefficient of the update's labels and of those that the model has seen.

Departures. s̄ is the mean of s over about the last hundred updates; in the paper it is
1. With 1, all updates would be lifted where all clients hold labels of their own. That
is a larger learning rate, and too large a one with many clients in flight. Past labels
count with the weight λ that their update had (``global_labels: weighted``): a class
whose updates were dampened away has not been learnt; ``unweighted`` is as published.
"""

from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.labels import LabelSums, add_labels, similarity
from fedcore.staleness.base import LEAST, AnyStaleness, StalenessConfig, StalenessPolicy
from fedcore.staleness.polynomial import Polynomial
from fedcore.typing import Counts, State

_RECENT = 1 / 100  # the share of one update in the mean


class BoostState(NamedTuple):
    """The state of the dampening, and the statistics of labels."""

    inner: State
    labels_C: LabelSums  # how often the model has seen each
    usual: float  # s̄
    seen: int  # updates with labels


class LabelBoost(StalenessConfig):
    """λ = min(1, Λ(τ)·max(1, s̄ / max(s, 1/cap)))."""

    kind: Literal["label_boost"] = "label_boost"
    inner: AnyStaleness = Polynomial(exponent=0.5)
    """Λ, the weight of an update with usual labels."""
    cap: float = Field(default=10.0, ge=1)
    """The most that a rare label may raise the weight."""
    global_labels: Literal["weighted", "unweighted"] = "weighted"
    """Whether past labels count with their update's weight."""

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.inner.uses_labels:
            kind = self.inner.kind
            raise ValueError(f"inner: {kind} looks at the labels itself; take another")
        return self

    @property
    def uses_labels(self) -> bool:
        """The boost compares them."""
        return True

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        inner, is_weighted = self.inner.build(), self.global_labels == "weighted"

        def init() -> BoostState:
            return BoostState(inner.init(), np.zeros(0), 1.0, 0)

        def weigh(state: BoostState, staleness: int, counts_C: Counts | None) -> float:
            weight = inner.weigh(state.inner, staleness, counts_C)
            if counts_C is not None:
                alike = max(similarity(counts_C, state.labels_C), 1 / self.cap)
                weight *= max(1.0, state.usual / alike)
            return min(1.0, max(LEAST, weight))

        def observe(
            state: BoostState, staleness: int, counts_C: Counts | None, weight: float
        ) -> BoostState:
            kept = inner.observe(state.inner, staleness, counts_C, weight)
            if counts_C is None:
                return state._replace(inner=kept)
            seen = state.seen + 1
            change = similarity(counts_C, state.labels_C) - state.usual
            return BoostState(
                kept,
                add_labels(state.labels_C, counts_C, weight if is_weighted else 1.0),
                state.usual + change * max(1 / seen, _RECENT),
                seen,
            )

        return StalenessPolicy(init, weigh, observe)
