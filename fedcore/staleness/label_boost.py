"""Label boost: an update with labels that the model has seldom seen counts for more.

Damaskinos et al., "FLeet", Middleware 2020, arXiv 2006.07273, §2.3, there as a part of
AdaSGD; here over any dampening Λ(τ): λ = min(1, Λ/sim), where sim is the Bhattacharyya
coefficient of the update's labels and of those that the model has seen. It is measured
in the weight λ that each update had: a class whose updates were dampened away has not
been learnt (``global_labels: weighted``; ``unweighted`` is as published).
"""

from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.labels import LabelCounts, add_labels, similarity
from fedcore.staleness.base import LEAST, AnyStaleness, StalenessConfig, StalenessPolicy
from fedcore.staleness.polynomial import Polynomial
from fedcore.typing import Counts, State


class BoostState(NamedTuple):
    """What the dampening keeps, and how often the model has seen each label."""

    inner: State
    labels_C: LabelCounts


class LabelBoost(StalenessConfig):
    """λ = min(1, Λ(τ) / max(sim, 1/cap))."""

    kind: Literal["label_boost"] = "label_boost"
    inner: AnyStaleness = Polynomial(exponent=0.5)
    """Λ: the weight of an update whose labels are like all others."""
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
        """The policy."""
        inner, is_weighted = self.inner.build(), self.global_labels == "weighted"

        def init() -> BoostState:
            return BoostState(inner.init(), np.zeros(0))

        def weigh(state: BoostState, staleness: int, counts_C: Counts | None) -> float:
            weight = inner.weigh(state.inner, staleness, counts_C)
            return boosted(weight, counts_C, state.labels_C, self.cap)

        def observe(
            state: BoostState, staleness: int, counts_C: Counts | None, weight: float
        ) -> BoostState:
            scale = weight if is_weighted else 1.0
            return BoostState(
                inner.observe(state.inner, staleness, counts_C, weight),
                add_labels(state.labels_C, counts_C, scale),
            )

        return StalenessPolicy(init, weigh, observe)


def boosted(
    weight: float, counts_C: Counts | None, labels_C: LabelCounts, cap: float
) -> float:
    """The weight of an update with these labels, where the model has seen those."""
    if counts_C is not None:
        weight /= max(similarity(counts_C, labels_C), 1 / cap)
    return min(1.0, max(LEAST, weight))
