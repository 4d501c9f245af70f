"""Weibull with mean 1."""

import math

import numpy as np
import pytest

from fedcore.distributions import ExponentialDistribution, Weibull
from fedcore.rng import Key

U_N = np.linspace(0.001, 0.999, 99)


def test_with_shape_one_it_is_exponential() -> None:
    expected_N = ExponentialDistribution().quantile(U_N)
    assert Weibull(shape=1).quantile(U_N) == pytest.approx(expected_N, rel=1e-12)


def test_with_shape_two_it_is_rayleigh() -> None:
    # Rayleigh with mean σ √(π/2) = 1 has the quantiles σ √(-2 ln(1 - u)).
    sigma = math.sqrt(2 / math.pi)
    expected_N = sigma * np.sqrt(-2 * np.log1p(-U_N))
    assert Weibull(shape=2).quantile(U_N) == pytest.approx(expected_N, rel=1e-12)


@pytest.mark.parametrize("shape", [0.7, 1.5, 4.0])
def test_the_mean_is_one_and_the_median_is_known(shape: float) -> None:
    config = Weibull(shape=shape)
    assert config.draw(Key.root(0).generator(), 200_000).mean() == pytest.approx(
        1, abs=0.02
    )
    median = math.log(2) ** (1 / shape) / math.gamma(1 + 1 / shape)
    assert config.quantile(np.array([0.5])) == pytest.approx([median], rel=1e-12)
    assert config.cdf(np.array([median])) == pytest.approx([0.5], rel=1e-12)


def test_the_shape_follows_from_mean_and_variance() -> None:
    # With shape 2 the variance is (4 - π) / π of the squared mean.
    values_N = np.array([1 - 1.0, 1 + 1.0]) * math.sqrt((4 - math.pi) / math.pi / 2)
    fitted = Weibull.fit(3 * (1 + values_N - values_N.mean()))
    assert fitted is not None
    assert fitted.scale == pytest.approx(3)
    assert isinstance(fitted.config, Weibull)
    assert fitted.config.shape == pytest.approx(2, rel=1e-9)
