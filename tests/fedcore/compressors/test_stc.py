"""Sparse ternary compression, with the figures of Sattler et al., TNNLS 2020."""

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import STC
from fedcore.rng import Key
from fedcore.typing import Vector


def encoded(ratio: float, delta_D: Vector) -> payloads.Payload:
    return STC(ratio=ratio).build((len(delta_D),)).encode(delta_D, None, Key.root(0))[0]


def test_the_largest_values_become_their_mean_with_their_signs() -> None:
    delta_D = np.array([0.1, -5.0, 0.3, 4.0, -0.2], np.float32)
    decoded = payloads.decode(encoded(0.4, delta_D))
    assert decoded.tolist() == [0.0, -4.5, 0.0, 4.5, 0.0]


def test_the_error_is_what_the_kept_values_vary_and_what_was_left_out() -> None:
    delta_D = np.array([0.0, -5.0, 3.0, 4.0, 0.0], np.float32)
    left = delta_D - payloads.decode(encoded(0.4, delta_D))
    assert np.square(left).sum() == pytest.approx(0.5**2 + 0.5**2 + 3.0**2)


@pytest.mark.parametrize(("ratio", "bits"), [(0.01, 9.1), (0.001, 12.5)])
def test_an_entry_takes_its_golomb_coded_gap_and_one_bit(
    ratio: float, bits: float
) -> None:
    delta_D = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    taken = 8 * encoded(ratio, delta_D).nbytes / (ratio * 1_000_000)
    assert taken == pytest.approx(bits, abs=0.2)
