"""AdaSGD: exponential dampening that adapts to the federation, and label boost.

Damaskinos, Guerraoui, Kermarrec, Nitu, Patra, Taïani, "FLeet: Online Federated
Learning via Staleness Awareness and Performance Prediction", Middleware 2020,
arXiv 2006.07273, §2.3.

Λ(τ) = e^(-β·min(τ, τ_thres)) with β = ln(τ_thres/2 + 1)/(τ_thres/2), so that the
exponential crosses DynSGD's inverse at τ_thres/2. τ_thres is the s-th percentile
of past staleness. λ = min(1, Λ/sim), where sim is the Bhattacharyya coefficient
of the update's labels and of those that the model has seen: rare labels count for
more.

Departures. τ is clamped at τ_thres, as in the authors' code and not in the text:
without it a straggler's weight is nothing. Past labels enter with the weight λ
that their update had (``global_labels: weighted``): a class whose updates
were dampened away has not been learnt; ``unweighted`` is as published.
The percentile is the nearest rank over the last ``window`` updates.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedcore.labels import LabelSums, add_labels, similarity
from fedcore.staleness.base import LEAST, StalenessConfig, StalenessPolicy
from fedcore.typing import Counts


class AdaSGDState(NamedTuple):
    """Past staleness, and how often the model has seen each label."""

    window_W: npt.NDArray[np.int64]  # a ring: the newest value lies before `seen % W`
    seen: int
    labels_C: LabelSums


class AdaSGD(StalenessConfig):
    """λ = min(1, e^(-β·min(τ, τ_thres)) / max(sim, 1/boost_cap))."""

    kind: Literal["ada_sgd"] = "ada_sgd"
    percentile: float = Field(default=99.7, gt=0, le=100)
    """s: the expected percentage of clients which are not stragglers."""
    bootstrap: int = Field(default=30, ge=0)
    """How many updates are dampened as in DynSGD before τ_thres is estimated."""
    window: int = Field(default=1000, ge=1, le=100_000)
    """How many past updates the percentile is taken over."""
    clamp: bool = True
    """Hold τ at τ_thres; without it a straggler's weight is nothing."""
    boost: bool = True
    """Divide by the similarity of labels."""
    boost_cap: float = Field(default=10.0, ge=1)
    """The most that a rare label may raise the weight."""
    global_labels: Literal["weighted", "unweighted"] = "weighted"
    """Whether past labels count with their update's weight."""

    @property
    def uses_labels(self) -> bool:
        """The boost compares them."""
        return self.boost

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return StalenessPolicy(self._init, self._weigh, self._observe)

    def _init(self) -> AdaSGDState:
        return AdaSGDState(np.zeros(self.window, np.int64), 0, np.zeros(0))

    def _weigh(
        self, state: AdaSGDState, staleness: int, counts_C: Counts | None
    ) -> float:
        weight = self._dampening(state, staleness)
        if self.boost and counts_C is not None:
            weight /= max(similarity(counts_C, state.labels_C), 1 / self.boost_cap)
        return min(1.0, max(LEAST, weight))

    def _dampening(self, state: AdaSGDState, staleness: int) -> float:
        if state.seen < max(1, self.bootstrap):
            return 1.0 / (staleness + 1)
        return exponential(staleness, self._threshold(state), clamp=self.clamp)

    def _threshold(self, state: AdaSGDState) -> int:
        past = state.window_W[: min(state.seen, self.window)].copy()
        rank = max(0, math.ceil(len(past) * self.percentile / 100) - 1)
        past.partition(rank)
        return int(past[rank])

    def _observe(
        self, state: AdaSGDState, staleness: int, counts_C: Counts | None, weight: float
    ) -> AdaSGDState:
        state.window_W[state.seen % self.window] = staleness
        scale = weight if self.global_labels == "weighted" else 1.0
        labels_C = add_labels(state.labels_C, counts_C, scale)
        return AdaSGDState(state.window_W, state.seen + 1, labels_C)


def exponential(staleness: int, threshold: int, *, clamp: bool = True) -> float:
    """Returns Λ(τ), which crosses 1/(τ + 1) at half the threshold; 1 for threshold 0.

    Example:
        >>> round(1 / exponential(6, 12), 9), round(1 / exponential(12, 12), 9)
        (7.0, 49.0)
    """
    if threshold <= 0:
        return 1.0
    half = threshold / 2
    rate = math.log(half + 1) / half
    return math.exp(-rate * (min(staleness, threshold) if clamp else staleness))
