"""Label skew with equal sizes: Hsu et al., 2019."""

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import balanced_dirichlet

Y = np.arange(20_000) % 10


def counts(alpha: float, clients: int, y: np.ndarray = Y) -> np.ndarray:
    parts = balanced_dirichlet(y, clients=clients, alpha=alpha, seed=1)
    return np.stack([np.bincount(y[part], minlength=10) for part in parts])


def test_sizes_differ_by_at_most_one() -> None:
    for alpha in (0.01, 0.3, 100):
        sizes = counts(alpha, 333).sum(axis=1)
        assert sizes.max() - sizes.min() == 1


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
def test_mixtures_have_the_moments_of_a_dirichlet_draw(alpha: float) -> None:
    """E[Σ q²] = (α + 1) / (αC + 1); n samples of q add (1 - Σ q²) / n to it.

    Those who come last find less to choose from: hence the tolerance.
    """
    found = ((counts(alpha, 400) / 50) ** 2).sum(axis=1).mean()
    expected = (alpha + 1) / (alpha * 10 + 1)
    assert found == pytest.approx(expected + (1 - expected) / 50, rel=0.1)


def test_with_a_tiny_alpha_almost_all_clients_have_one_class() -> None:
    held = (counts(0.001, 100) > 0).sum(axis=1)
    assert (held == 1).mean() > 0.7


def test_a_rare_class_is_rare_in_the_mixtures() -> None:
    y = np.repeat([0, 1], [900, 100])
    found = counts(1000.0, 10, y)
    assert found[:, 1].tolist() == pytest.approx([10] * 10, abs=9)


def test_no_client_is_last_by_its_place() -> None:
    """Whoever comes last has to take what is left: chance says who."""
    skew = (counts(0.05, 200).max(axis=1) / 100).reshape(2, 100).mean(axis=1)
    assert abs(skew[0] - skew[1]) < 0.08


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_alpha_must_be_a_number_above_zero(alpha: float) -> None:
    with pytest.raises(ConfigError, match="alpha must be above 0"):
        balanced_dirichlet(Y, clients=3, alpha=alpha)
