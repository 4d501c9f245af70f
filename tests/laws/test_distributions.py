"""The laws that every distribution keeps."""

import numpy as np

from fedcore.distributions import (
    DistributionConfig,
    LogNormal,
    Pareto,
    UniformDistribution,
)
from fedcore.rng import Key
from tests.laws.registered import named, variants

EVERY = variants(
    DistributionConfig,
    LogNormal(sigma=0),
    LogNormal(sigma=3),
    Pareto(shape=0.5),
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
