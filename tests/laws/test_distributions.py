"""The laws that every distribution keeps."""

import numpy as np
import pytest

from fedcore.distributions import (
    DistributionConfig,
    Empirical,
    LogNormal,
    Pareto,
    Same,
    UniformDistribution,
    Weibull,
)
from fedcore.rng import Key
from tests.laws.registered import named, variants

EVERY = variants(
    DistributionConfig,
    LogNormal(sigma=0),
    LogNormal(sigma=3),
    LogNormal(sigma=50),
    Pareto(shape=0.1),
    Pareto(shape=0.5),
    Weibull(shape=0.1),
    Weibull(shape=0.7),
    Weibull(shape=30),
    UniformDistribution(low=2, high=2),
)


@named(EVERY)
def test_draws_are_finite_and_above_zero(config: DistributionConfig) -> None:
    drawn = config.draw(Key.root(0).generator(), 20_000)
    assert drawn.shape == (20_000,)
    assert bool((drawn > 0).all())
    assert bool(np.isfinite(drawn).all())


@named(EVERY)
def test_draws_follow_from_the_key(config: DistributionConfig) -> None:
    first, second = (config.draw(Key.root(3).generator(), 50) for _ in range(2))
    assert first.tolist() == second.tolist()
    assert config.draw(Key.root(3).generator(), 0).shape == (0,)


U_N = np.array([2.0**-53, 1e-9, 0.01, 0.25, 0.5, 0.75, 0.99, 1 - 1e-9, 1 - 2.0**-53])


@named(EVERY)
def test_quantiles_are_finite_above_zero_and_ascend(config: DistributionConfig) -> None:
    x_N = config.quantile(U_N)
    assert bool(np.isfinite(x_N).all())
    assert bool((x_N > 0).all())
    assert bool((np.diff(x_N) >= 0).all())


@named(EVERY)
def test_a_share_u_lies_below_its_quantile(config: DistributionConfig) -> None:
    share_N = config.cdf(config.quantile(U_N))
    assert bool((share_N >= U_N - 1e-9).all())
    if len(set(config.quantile(U_N).tolist())) == len(U_N):  # no steps in it
        assert share_N == pytest.approx(U_N, abs=1e-9)
    assert bool((config.cdf(0.999 * config.quantile(U_N)) <= share_N).all())


@named(EVERY)
def test_drawing_is_the_quantile_of_uniform_numbers(config: DistributionConfig) -> None:
    u_N = Key.root(5).generator().random(100)
    drawn_N = config.draw(Key.root(5).generator(), 100)
    assert drawn_N.tolist() == config.quantile(u_N).tolist()


SPREAD_N = (np.arange(20_000) + 0.5) / 20_000


def _fits(config: DistributionConfig) -> bool:
    """Whether it can be fitted, and a sample's moments say something about it."""
    x_N = config.quantile(SPREAD_N)
    is_tame = 1 < x_N.max() / x_N.min() < 1e9
    return is_tame and config.fit(x_N) is not None


@named([c for c in [*EVERY, Pareto(shape=3), Weibull(shape=4)] if _fits(c)])
def test_what_was_drawn_from_a_kind_is_fitted_by_it(config: DistributionConfig) -> None:
    x_N = config.quantile(SPREAD_N)
    fitted = config.fit(7.0 * x_N)
    assert fitted is not None
    assert type(fitted.config) is type(config)
    assert fitted.scale == pytest.approx(7.0 * _unit(config), rel=0.02)
    share_N = fitted.config.cdf(7.0 * x_N / fitted.scale)
    assert share_N == pytest.approx(config.cdf(x_N), abs=0.02)


def _unit(config: DistributionConfig) -> float:
    """A uniform distribution is fitted in units of its middle."""
    if isinstance(config, UniformDistribution):
        return (config.low + config.high) / 2
    return 1.0


def test_what_has_no_parameters_to_find_is_not_fitted() -> None:
    for kind in (Same, Empirical):
        assert kind.fit(np.array([1.0, 2.0])) is None
