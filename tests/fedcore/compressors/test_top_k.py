"""Top-k, with the bound of Shi et al., arXiv 1911.08772."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import TopK
from fedcore.compressors.base import count_kept
from fedcore.rng import Key
from fedcore.typing import Vector


def decoded(ratio: float, delta_D: Vector) -> Vector:
    encode = TopK(ratio=ratio).build((len(delta_D),)).encode
    vector: Vector = payloads.decode(encode(delta_D, None, Key.root(0))[0])
    return vector


def error(ratio: float, delta_D: Vector) -> float:
    lost = np.square(delta_D - decoded(ratio, delta_D)).sum()
    return float(lost / np.square(delta_D).sum())


def test_the_largest_magnitudes_travel_exactly() -> None:
    delta_D = np.array([0.1, -5.0, 0.3, 4.0, -0.2], np.float32)
    assert decoded(0.4, delta_D).tolist() == [0.0, -5.0, 0.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("ratio", "dim", "k"),
    [(0.01, 2410, 24), (0.01, 99, 1), (0.5, 3, 1), (1.0, 7, 7), (0.01, 0, 0)],
)
def test_k_is_the_floor_of_the_share_and_at_least_one(
    ratio: float, dim: int, k: int
) -> None:
    assert count_kept(ratio, dim) == k


def test_a_message_takes_about_five_bytes_an_entry() -> None:
    delta_D = np.random.default_rng(0).standard_normal(2410).astype(np.float32)
    encode = TopK(ratio=0.01).build((2410,)).encode
    # Header 6, count 4, coding 2, gaps of 8.3 bits and float32 for each of 24.
    assert encode(delta_D, None, Key.root(0))[0].nbytes == 6 + 4 + 2 + 25 + 24 * 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.3])
def test_bell_shaped_updates_lose_less_than_one_minus_k_over_d_squared(
    ratio: float, seed: int
) -> None:
    delta_D = np.random.default_rng(seed).standard_normal(10_000).astype(np.float32)
    assert error(ratio, delta_D) <= (1 - ratio) ** 2


def test_keeping_a_tenth_of_a_gaussian_loses_56_per_cent_and_not_81() -> None:
    delta_D = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    assert error(0.1, delta_D) == pytest.approx(0.56, abs=0.01)


def test_the_bound_of_any_vector_is_one_minus_k_over_d() -> None:
    constant_D = np.ones(100, np.float32)
    assert error(0.1, constant_D) == pytest.approx(1 - 0.1)


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.01, float("nan")])
def test_the_ratio_is_a_share(ratio: float) -> None:
    with pytest.raises(ValidationError, match="ratio"):
        TopK(ratio=ratio)
