"""Label skew by a Dirichlet draw: Hsu et al., 2019."""

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import dirichlet

Y = np.arange(2000) % 10


def skew(alpha: float) -> float:
    """The mean share of a client's most frequent label."""
    parts = dirichlet(Y, clients=20, alpha=alpha, seed=1)
    return float(np.mean([np.bincount(Y[part]).max() / len(part) for part in parts]))


def test_a_small_alpha_gives_each_client_few_labels() -> None:
    skews = [skew(alpha) for alpha in (0.05, 0.3, 1, 10, 1e4)]
    assert skews == sorted(skews, reverse=True)
    assert skews[0] > 0.7
    assert skews[-1] < 0.15


@pytest.mark.parametrize("min_size", [1, 5, 20])
def test_every_client_has_the_promised_rows(min_size: int) -> None:
    parts = dirichlet(Y, clients=20, alpha=0.3, min_size=min_size)
    assert min(map(len, parts)) >= min_size


def test_labels_may_be_words() -> None:
    parts = dirichlet(["dog", "cat"] * 30, clients=3, alpha=1.0)
    assert sum(map(len, parts)) == 60


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_alpha_must_be_a_number_above_zero(alpha: float) -> None:
    with pytest.raises(ConfigError, match="alpha must be above 0"):
        dirichlet(Y, clients=3, alpha=alpha)


def test_what_no_draw_can_reach_is_refused_with_advice() -> None:
    with pytest.raises(ConfigError, match="use fewer clients or a larger alpha"):
        dirichlet(np.arange(30) % 3, clients=3, alpha=0.5, min_size=11)
