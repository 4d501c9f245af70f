"""How much top-k loses at most.

Of any vector 1 - k/d: Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS
2018, Lemma A.1. Of a bell curve (1 - k/d)²: Shi, Chu, Cheung, See, "Understanding Top-k
Sparsification in Distributed Deep Learning", arXiv 1911.08772, Theorem 1.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcore import payloads
from fedcore.compressors import TopK
from fedcore.compressors.base import count_kept
from fedcore.rng import Key
from fedcore.typing import Vector

ratios = st.floats(0.001, 1.0)
values = st.floats(-(2.0**60), 2.0**60, width=32)
ROUNDING = 1e-6


def lost(ratio: float, x_D: Vector) -> tuple[float, float]:
    """‖x - C(x)‖² and ‖x‖²."""
    message, _ = TopK(ratio=ratio).build((len(x_D),)).encode(x_D, None, Key.root(0))
    wide_D = x_D.astype(np.float64)
    left_D = wide_D - payloads.decode(message)
    return float(left_D @ left_D), float(wide_D @ wide_D)


@given(hnp.arrays(np.float32, st.integers(1, 200), elements=values), ratios)
def test_of_any_vector_no_more_than_the_share_of_what_stays_behind(
    x_D: Vector, ratio: float
) -> None:
    left, whole = lost(ratio, x_D)
    share = 1 - count_kept(ratio, len(x_D)) / len(x_D)
    assert left <= share * whole * (1 + ROUNDING)


@given(st.integers(0, 2**32), st.integers(1_000, 20_000), st.floats(0.01, 0.9))
def test_of_a_bell_curve_no_more_than_the_square_of_that_share(
    seed: int, dim: int, ratio: float
) -> None:
    x_D = np.random.default_rng(seed).standard_normal(dim).astype(np.float32)
    left, whole = lost(ratio, x_D)
    assert left <= (1 - count_kept(ratio, dim) / dim) ** 2 * whole


@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_of_a_bell_curve_loses_56_per_cent_where_81_are_allowed(
    seed: int,
) -> None:
    x_D = np.random.default_rng(seed).standard_normal(100_000).astype(np.float32)
    left, whole = lost(0.1, x_D)
    assert left / whole == pytest.approx(0.56, abs=0.01)
