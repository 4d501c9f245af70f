"""How many gradients are worth averaging: gradient diversity and the noise scale.

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
from dataclasses import dataclass

import numpy as np

from fedcore.errors import ConfigError
from fedcore.typing import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimit:
    """What n gradients at one model say about averaging more of them."""

    count: int
    """n: how many gradients there are."""
    square_mean: float
    """The mean of ‖g_i‖²."""
    mean_square: float
    """‖mean of g_i‖²."""

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
            None is kept, so that there may be more of them than fit into memory.

    Raises:
        ConfigError: there are fewer than two, one is not finite, or all are zero.
    """
    count, squares = 0, 0.0
    sum_D = np.zeros(1)
    for gradient_D in gradients:
        g_D = np.asarray(gradient_D, np.float64)
        squares += float(g_D @ g_D)
        sum_D = sum_D + g_D
        count += 1
    if count < 2:
        raise ConfigError(
            f"batch limit: expected 2 gradients or more to compare, got {count}"
        )
    if not np.isfinite(squares):
        raise ConfigError(
            "batch limit: a gradient is not finite; the model has diverged"
        )
    if not squares:
        raise ConfigError(
            "batch limit: all gradients are zero; the model is at a point where it "
            "learns nothing"
        )
    return BatchLimit(
        count=count,
        square_mean=squares / count,
        mean_square=float(sum_D @ sum_D) / count**2,
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
