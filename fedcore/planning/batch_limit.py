"""Finds how many gradients are worth averaging, by diversity and noise scale.

Yin, Pananjady, Lam, Papailiopoulos, Ramchandran, Bartlett, "Gradient Diversity: a Key
Ingredient for Scalable Distributed Learning", AISTATS 2018: the diversity is
Δ = Σ‖g_i‖² / ‖Σ g_i‖² over n gradients, and up to a batch of B = n·Δ mini-batch SGD is
about as good, for the same number of samples, as one by one. (The paper's abstract
alone was within reach; both definitions are checked by their limits: n equal gradients
give Δ = 1 / n and B = 1, orthogonal ones of equal norm B = n.)

McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training", arXiv
1812.06162, section 2 and appendix A: the simple noise scale tr(Σ) / ‖G‖², with both
parts estimated without bias from the norms of gradients of two batch sizes (derived
here from E‖g_B‖² = ‖G‖² + tr(Σ) / B; the paper's text was not within reach).

The two agree: with all n gradients n·Δ = 1 + tr(Σ) / ‖G‖². From a sample of n of many
more, n·Δ is too small, and never above n for gradients that do not cancel. The verdict
therefore takes 1 + the noise scale, whose parts have no bias: our departure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedcore.errors import ConfigError
from fedcore.typing import Vector

BLOCKS = 10  # of gradients; each is left out once


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimit:
    """Estimates from n gradients at one model whether averaging more of them helps."""

    count: int
    """n: how many gradients there are."""
    square_mean: float
    """The mean of ‖g_i‖²."""
    mean_square: float
    """‖mean of g_i‖²."""
    without: tuple["BatchLimit", ...] = ()
    """The same without each tenth of the gradients, for a jackknife; empty: they are
    too few."""

    @property
    def precision(self) -> float:
        """‖G‖² / tr(Σ), the inverse of the noise scale."""
        return self.signal / self.noise if self.noise > 0 else float("inf")

    @property
    def precision_error(self) -> float:
        """The standard error of :attr:`precision`, by a jackknife; NaN: not known."""
        found_B = np.array([each.precision for each in self.without])
        blocks = len(found_B)
        if not blocks or not np.isfinite(found_B).all():
            return float("nan")
        return float(np.sqrt((blocks - 1) * found_B.var()))

    @property
    def diversity(self) -> float:
        """Yin's Δ = Σ‖g_i‖² / ‖Σ g_i‖²; infinite where the gradients cancel."""
        return self.limit / self.count

    @property
    def limit(self) -> float:
        """Yin's batch limit n·Δ; infinite where the gradients cancel."""
        if not self.mean_square:
            return float("inf")
        return self.square_mean / self.mean_square

    @property
    def signal(self) -> float:
        """The unbiased estimate of ‖G‖²; below 0 where noise hides the gradient."""
        return signal_and_noise(self.square_mean, 1, self.mean_square, self.count)[0]

    @property
    def noise(self) -> float:
        """The unbiased estimate of tr(Σ)."""
        return signal_and_noise(self.square_mean, 1, self.mean_square, self.count)[1]

    @property
    def noise_scale(self) -> float:
        """McCandlish's tr(Σ) / ‖G‖²; infinite where noise hides the gradient."""
        return self.noise / self.signal if self.signal > 0 else float("inf")

    @property
    def beyond(self) -> float:
        """The number of gradients beyond which more of them are flagged.

        1 + the noise scale: n·Δ for as many gradients as there could be.
        """
        return 1 + max(0.0, self.noise_scale)


def batch_limit(gradients: Iterable[Vector]) -> BatchLimit:
    """Measures what gradients at one model have in common.

    Args:
        gradients: one after the other, of a sample or of a client each, shape (D,).
            Ten sums are kept, so that there may be more of them than fit into memory.

    Raises:
        ConfigError: there are fewer than two, one is not finite, or all are zero.
    """
    parts = [_Part() for _ in range(BLOCKS)]
    count = 0
    for gradient_D in gradients:
        parts[count % BLOCKS].add(np.asarray(gradient_D, np.float64))
        count += 1
    if count < 2:
        raise ConfigError(
            f"batch limit: expected 2 gradients or more to compare, got {count}"
        )
    whole = _Part.of(parts)
    without: tuple[BatchLimit, ...] = ()
    if not np.isfinite(whole.squares):
        raise ConfigError(
            "batch limit: a gradient is not finite; the model has diverged"
        )
    if not whole.squares:
        raise ConfigError(
            "batch limit: all gradients are zero; the model is at a point where it "
            "learns nothing"
        )
    if count > 2:
        rests = (_Part.of([p for p in parts if p is not left]) for left in parts)
        without = tuple(rest.limit() for rest in rests if rest.count < count)
    return replace(whole.limit(), without=without)


class _Part:
    """The sums over some of the gradients."""

    def __init__(self) -> None:
        self.count, self.squares, self.sum_D = 0, 0.0, np.zeros(1)

    @classmethod
    def of(cls, parts: Iterable["_Part"]) -> "_Part":
        whole = cls()
        for part in parts:
            whole.count += part.count
            whole.squares += part.squares
            whole.sum_D = whole.sum_D + part.sum_D
        return whole

    def add(self, g_D: Vector) -> None:
        self.count += 1
        self.squares += float(g_D @ g_D)
        self.sum_D = self.sum_D + g_D

    def limit(self) -> BatchLimit:
        return BatchLimit(
            count=self.count,
            square_mean=self.squares / self.count,
            mean_square=float(self.sum_D @ self.sum_D) / self.count**2,
        )


def signal_and_noise(
    small_square: float, small: int, big_square: float, big: int
) -> tuple[float, float]:
    """Estimates ‖G‖² and tr(Σ) from gradients of two batch sizes (appendix A).

    E‖g_B‖² = ‖G‖² + tr(Σ) / B, solved for both unknowns. Each is unbiased; their ratio
    is not.

    Args:
        small_square: the mean of ‖g‖² over batches of the smaller size.
        small: the smaller size.
        big_square: the same for the larger size.
        big: the larger size.

    Raises:
        ConfigError: the sizes are not in order.
    """
    if not 1 <= small < big:
        raise ConfigError(
            f"noise scale: expected two batch sizes in order, got {small} and {big}"
        )
    signal = (big * big_square - small * small_square) / (big - small)
    noise = (small_square - big_square) / (1 / small - 1 / big)
    return signal, noise
