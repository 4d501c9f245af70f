"""Gaussian-k: Shi et al., arXiv 1911.08772, Algorithm 1, and the guards."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import GaussianK
from fedcore.payloads import Payload
from fedcore.rng import Key
from fedcore.typing import Indices, Vector


def message(ratio: float, delta: Vector) -> Payload:
    encode = GaussianK(ratio=ratio).build((delta.shape[-1],)).encode
    return encode(delta, None, [Key.root(0)] * len(delta))[0]


def count(ratio: float, delta_D: Vector) -> int:
    return int(message(ratio, delta_D).arrays["indices"].shape[-1])


def f32(*values: float) -> Vector:
    return np.array(values, np.float32)


def gaussian(dim: int, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)


def by_the_paper(delta_D: Vector, k: int, quantile: float) -> Indices:
    """The lines of the paper, all of them in double precision."""
    wide_D = delta_D.astype(np.float64)
    threshold = wide_D.mean() + wide_D.std() * quantile
    for _ in range(3):
        exceeding = (np.abs(wide_D) > threshold).sum()
        if exceeding < 2 * k / 3:
            threshold *= 0.5
        elif exceeding > 4 * k / 3:
            threshold *= 1.5
        else:
            break
    return np.flatnonzero(np.abs(wide_D) > threshold)


def test_the_first_threshold_by_hand() -> None:
    # Mean 0.03, deviation 2.18 and, as k = 3 of 4, Φ⁻¹(1 - 3/8) = 0.319: 0.73.
    payload = message(0.75, f32(3, -3, 0.75, -0.62))
    assert payload.arrays["indices"].tolist() == [0, 1, 2]
    assert payload.arrays["values"].tolist() == [3, -3, 0.75]


def test_a_threshold_is_halved_and_raised_by_half_three_times_at_most() -> None:
    # The deviation is √2. With k = 4 of 8 the threshold 0.95 finds four; with k = 1 it
    # is 2.17 and finds none, 1.08 and 1.63 find four, 2.44 none: the first largest.
    delta_D = f32(2, -2, 0, 0, 0, 0, 2, -2)
    assert message(0.5, delta_D).arrays["indices"].tolist() == [0, 1, 6, 7]
    assert message(0.125, delta_D).arrays["indices"].tolist() == [0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("ratio", "quantile"), [(0.001, 3.2905267), (0.01, 2.5758293), (0.1, 1.6448536)]
)
def test_the_selection_is_that_of_the_paper(
    ratio: float, quantile: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for delta in (rng.standard_normal(200_000), rng.laplace(size=200_000)):
        delta_D = delta.astype(np.float32)
        k = int(ratio * 200_000)
        expected = by_the_paper(delta_D, k, quantile)
        payload = message(ratio, delta_D)
        if len(expected) <= 4 * k / 3:
            assert payload.arrays["indices"].tolist() == expected.tolist()
        else:
            assert payload.arrays["indices"].shape == (k,)


def test_about_k_values_of_a_bell_curve_are_sent() -> None:
    assert count(0.01, gaussian(100_000)) == pytest.approx(1000, rel=0.1)


def test_tails_of_laplace_are_cut_back_to_four_thirds_of_k() -> None:
    delta_D = np.random.default_rng(0).laplace(size=100_000).astype(np.float32)
    # e^(-3.29·√2) of all exceed the first threshold: ten times as many as wanted.
    first = (np.abs(delta_D) > 3.2905 * delta_D.std()).sum()
    assert first > 900
    assert 67 <= count(0.001, delta_D) <= 133


def test_tails_far_from_a_bell_curve_are_cut_far_below_k() -> None:
    # Half of all values are zero, as where inputs are, and the others lognormal.
    rng = np.random.default_rng(0)
    delta_D = (rng.lognormal(0, 3, 100_000) * (rng.random(100_000) < 0.5)).astype("f4")
    assert count(0.1, delta_D) < 0.2 * 10_000


@pytest.mark.parametrize(
    "delta_D",
    [
        np.full(1000, 0.7, np.float32),
        np.full(1000, -0.7, np.float32),
        gaussian(1000) + 100,
        gaussian(1000) - 100,
        gaussian(1000) * np.float32(1e-30),
        gaussian(1000) * np.float32(1e37),
        np.zeros(1000, np.float32),
    ],
)
def test_every_message_has_between_one_and_four_thirds_of_k_values(
    delta_D: Vector,
) -> None:
    payload = message(0.01, delta_D)
    assert 1 <= payload.arrays["indices"].shape[-1] <= 13
    assert np.abs(payload.arrays["values"]).max() == np.abs(delta_D).max()


def test_where_too_many_exceed_the_threshold_the_k_largest_are_sent() -> None:
    # With a mean of -150 all thresholds are negative, and everything exceeds them.
    delta_D = -100 - np.arange(100, dtype=np.float32)
    assert message(0.05, delta_D).arrays["indices"].tolist() == [95, 96, 97, 98, 99]


def test_rows_of_a_stack_are_padded_with_zeros_that_do_not_travel() -> None:
    few, many = f32(9, 0.1, 0.1, 0.1, 0.1, 0.1), f32(1, -1, 1, -1, 0.5, 0.5)
    stack = message(0.5, np.stack([few, many]))
    assert stack.arrays["indices"].tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert stack.arrays["values"].tolist() == [[9, 0, 0, 0], [1, -1, 1, -1]]
    alone = [payloads.pack(message(0.5, row)) for row in (few, many)]
    assert [payloads.pack(row) for row in payloads.rows(stack)] == alone


def test_large_vectors_are_searched_in_blocks_and_nothing_is_missed() -> None:
    delta_D = np.full(200_000, 1e-3, np.float32)
    places = [0, 65_535, 65_536, 131_072, 199_999]
    delta_D[places] = [5, -6, 7, -8, 9]
    payload = message(5 / 200_000, delta_D)
    assert payload.arrays["indices"].tolist() == places


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.01, float("nan")])
def test_the_ratio_is_a_share(ratio: float) -> None:
    with pytest.raises(ValidationError, match="ratio"):
        GaussianK(ratio=ratio)
