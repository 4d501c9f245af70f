"""Quantiles against closed forms and against the standard library."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from fedcore.distributions import (
    DistributionConfig,
    ExponentialDistribution,
    LogNormal,
    Pareto,
    UniformDistribution,
)
from fedcore.distributions._normal import normal_cdf, normal_quantile

U_N = np.concatenate(
    [
        10.0 ** -np.arange(1, 17),
        np.linspace(0.02, 0.98, 97),
        1 - 10.0 ** -np.arange(1, 16),
    ]
)


def test_normal_quantiles_are_those_of_the_standard_library() -> None:
    expected = [NormalDist().inv_cdf(u) for u in U_N.tolist()]
    assert normal_quantile(U_N) == pytest.approx(expected, rel=1e-14, abs=1e-15)
    assert normal_quantile(np.array([0.975]))[0] == pytest.approx(1.959963984540054)


def test_normal_shares_are_those_of_the_standard_library() -> None:
    z_N = np.linspace(-8, 8, 65)
    expected = [NormalDist().cdf(z) for z in z_N.tolist()]
    assert normal_cdf(z_N) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("config", "share", "value"),
    [
        (ExponentialDistribution(), 0.5, math.log(2)),
        (ExponentialDistribution(), 1 - math.exp(-3), 3.0),
        (LogNormal(sigma=2), 0.5, 1.0),
        (LogNormal(sigma=1), NormalDist().cdf(1), math.e),
        (LogNormal(sigma=0.5), 0.975, math.exp(0.5 * 1.959963984540054)),
        (Pareto(shape=1), 0.75, 4.0),
        (Pareto(shape=2), 0.75, 2.0),
        (Pareto(shape=1.5), 0.5, 2 ** (2 / 3)),
        (UniformDistribution(low=1, high=3), 0.25, 1.5),
    ],
)
def test_a_quantile_is_the_closed_form(
    config: DistributionConfig, share: float, value: float
) -> None:
    assert config.quantile(np.array([share])) == pytest.approx([value], rel=1e-9)
    assert config.cdf(np.array([value])) == pytest.approx([share], rel=1e-9)


@pytest.mark.parametrize(
    ("config", "mean"),
    [
        (ExponentialDistribution(), 1.0),
        (LogNormal(sigma=0.5), math.exp(0.125)),
        (Pareto(shape=3), 1.5),
        (UniformDistribution(low=1, high=3), 2.0),
    ],
)
def test_a_mean_is_the_closed_form(config: DistributionConfig, mean: float) -> None:
    u_N = (np.arange(1_000_000) + 0.5) / 1_000_000
    assert config.quantile(u_N).mean() == pytest.approx(mean, rel=1e-3)
