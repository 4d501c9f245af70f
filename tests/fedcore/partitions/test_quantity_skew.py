"""Sizes by a Dirichlet draw, a log-normal one, or Zipf's law."""

from typing import Any

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import quantity_skew

Y = np.arange(100_000) % 10


def sizes(clients: int = 200, **settings: Any) -> np.ndarray:
    return np.array(
        [len(part) for part in quantity_skew(Y, clients=clients, **settings)]
    )


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_shares_have_the_moments_of_a_dirichlet_draw(alpha: float) -> None:
    found = [
        ((sizes(alpha=alpha, seed=seed) / len(Y)) ** 2).sum() for seed in range(20)
    ]
    assert np.mean(found) == pytest.approx((alpha + 1) / (200 * alpha + 1), rel=0.05)


@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_the_logarithms_of_log_normal_sizes_have_the_deviation(sigma: float) -> None:
    assert np.log(sizes(sigma=sigma)).std() == pytest.approx(sigma, rel=0.15)


def test_zipfs_law_relates_size_and_rank() -> None:
    ranked = np.sort(sizes(exponent=1.0))[::-1]
    assert ranked[0] / ranked[1] == pytest.approx(2, rel=0.02)
    assert ranked[0] / ranked[99] == pytest.approx(100, rel=0.02)
    assert sizes(exponent=1.0).argmax() > 0  # chance says who is the largest


def test_labels_are_alike() -> None:
    for part in quantity_skew(Y, clients=20, sigma=1.0):
        if len(part) > 2000:
            assert np.bincount(Y[part]).min() > 0.05 * len(part)


def test_every_client_has_the_promised_rows() -> None:
    assert sizes(alpha=0.01, min_size=7).min() == 7


@pytest.mark.parametrize("laws", [{}, {"alpha": 1.0, "sigma": 1.0}])
def test_there_is_exactly_one_law(laws: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="exactly one of alpha, sigma and exponent"):
        quantity_skew(Y, clients=3, **laws)


@pytest.mark.parametrize("law", ["alpha", "sigma", "exponent"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_the_law_has_a_number_above_zero(law: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{law} must be above 0 and finite"):
        sizes(3, **{law: value})


def test_more_rows_than_there_are_cannot_be_promised() -> None:
    with pytest.raises(ConfigError, match="use fewer clients or a smaller min_size"):
        quantity_skew(Y[:10], clients=3, alpha=1.0, min_size=4)
