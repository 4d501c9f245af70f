"""The batch limit: gradient diversity and the noise scale."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.batch_limit import BatchLimit, batch_limit, signal_and_noise

SIZES = st.integers(2, 40)


@given(SIZES)
def test_equal_gradients_allow_a_batch_of_one(n: int) -> None:
    found = batch_limit([np.array([3.0, -1.0], np.float32)] * n)
    assert found.diversity == pytest.approx(1 / n)
    assert found.limit == pytest.approx(1)
    assert found.beyond == pytest.approx(1)


@given(SIZES)
def test_orthogonal_gradients_of_equal_norm_allow_all_of_them(n: int) -> None:
    found = batch_limit(2 * np.eye(n, dtype=np.float32))
    assert found.diversity == pytest.approx(1)
    assert found.limit == pytest.approx(n)
    assert math.isinf(found.beyond) or found.beyond > n  # no signal is left


@given(SIZES, st.integers(0, 100), st.sampled_from([1e-3, 7.0, 1e4]))
def test_the_scale_of_the_gradients_does_not_matter(
    n: int, seed: int, factor: float
) -> None:
    g_ND = np.random.default_rng(seed).normal(0.5, 1, (n, 7))
    one, other = batch_limit(g_ND), batch_limit(factor * g_ND)
    assert other.limit == pytest.approx(one.limit)
    assert other.beyond == pytest.approx(one.beyond)


@given(SIZES, st.integers(0, 100))
def test_the_two_definitions_agree(n: int, seed: int) -> None:
    g_ND = np.random.default_rng(seed).normal(0.5, 1, (n, 7))
    found, mean_D = batch_limit(g_ND), g_ND.mean(axis=0)
    spread = np.square(g_ND - mean_D).sum() / n
    assert found.limit == pytest.approx(1 + spread / (mean_D @ mean_D))


def test_signal_and_noise_have_no_bias() -> None:
    rng, dim, n = np.random.default_rng(0), 20, 8
    mean_D = np.full(dim, 0.3)
    signal, noise, biased = [], [], []
    for _ in range(4000):
        found = batch_limit(mean_D + rng.normal(0, 0.5, (n, dim)))
        signal.append(found.signal)
        noise.append(found.noise)
        biased.append(found.mean_square)
    assert np.mean(signal) == pytest.approx(mean_D @ mean_D, rel=0.01)
    assert np.mean(noise) == pytest.approx(dim * 0.25, rel=0.01)
    # The negative control: the plain square of the mean is too large by tr(Σ) / n.
    assert np.mean(biased) == pytest.approx(mean_D @ mean_D + dim * 0.25 / n, rel=0.01)


def test_two_batch_sizes_are_solved_for_both_unknowns() -> None:
    # ‖G‖² is 2 and tr(Σ) is 24.
    assert signal_and_noise(2 + 24 / 4, 4, 2 + 24 / 12, 12) == pytest.approx((2, 24))


def test_gradients_that_cancel_have_no_limit() -> None:
    found = batch_limit([np.array([1.0]), np.array([-1.0])])
    assert math.isinf(found.limit)
    assert math.isinf(found.beyond)


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        ([np.ones(3)], "expected 2 gradients or more to compare, got 1"),
        ([np.zeros(3)] * 2, "all gradients are zero"),
        ([np.ones(3), np.full(3, np.nan)], "is not finite"),
    ],
)
def test_gradients_that_tell_nothing_are_refused(
    gradients: list[np.ndarray], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        batch_limit(gradients)


def test_batch_sizes_out_of_order_are_refused() -> None:
    with pytest.raises(ConfigError, match="two batch sizes in order"):
        signal_and_noise(1.0, 8, 1.0, 8)


def test_the_error_of_a_jackknife_is_that_of_other_draws() -> None:
    def drawn(seed: int) -> BatchLimit:
        rng = np.random.default_rng(seed)
        return batch_limit(rng.normal(0.1, 1.0, (64, 40)))

    found = [drawn(seed) for seed in range(200)]
    spread = np.std([each.precision for each in found])
    error = np.median([each.precision_error for each in found])
    assert 0.7 * spread < error < 1.4 * spread


def test_two_gradients_have_no_error() -> None:
    assert np.isnan(batch_limit(np.eye(2)).precision_error)
