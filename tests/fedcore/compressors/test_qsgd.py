"""QSGD: Alistarh et al., NeurIPS 2017, §3.1 and Lemma 3.1."""

from typing import Literal

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import QSGD, ErrorFeedback
from fedcore.payloads import Payload
from fedcore.payloads.quantised import levels
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.fedcore.compressors.edges import around_the_edge

Bits = Literal[8, 4, 2]
every_width = pytest.mark.parametrize("bits", [8, 4, 2])


def message(config: QSGD, delta_D: Vector, seed: int = 0) -> Payload:
    return config.build(delta_D.shape).encode(delta_D, None, Key.root(seed))[0]


def test_levels_are_shares_of_the_norm() -> None:
    # ‖(3, -4)‖ = 5 in seven levels: 4.2 and -5.6 are rounded up or down.
    seen = set()
    for seed in range(200):
        payload = message(QSGD(bits=4), np.array([3.0, -4.0], np.float32), seed)
        assert payload.arrays["steps"].tolist() == pytest.approx([5 / 7])
        seen.add(tuple(payload.arrays["levels"].tolist()))
    assert seen == {(4, -5), (4, -6), (5, -5), (5, -6)}


def test_with_one_level_the_norm_is_sent_with_the_right_chance() -> None:
    delta_D = np.array([3.0, -4.0], np.float32)
    stack_ND = np.tile(delta_D, (4000, 1))
    keys = [Key.root(seed) for seed in range(4000)]
    encode = QSGD(bits=2).build((2,)).encode
    drawn_ND = payloads.decode(encode(stack_ND, None, keys)[0])
    assert set(np.unique(drawn_ND).tolist()) == {-5.0, 0.0, 5.0}
    np.testing.assert_allclose(drawn_ND.mean(axis=0), delta_D, atol=0.2)


def test_each_bucket_has_its_norm() -> None:
    delta_D = np.array([3.0, 4.0, 0.0, 0.0, -6.0, 8.0, 5.0], np.float32)
    payload = message(QSGD(bits=8, bucket=2), delta_D)
    steps = [5 / 127, 0.0, 10 / 127, 5 / 127]
    assert payload.arrays["steps"].tolist() == pytest.approx(steps)
    assert payload.nbytes == 6 + 1 + 4 + 4 * 4 + 7


@every_width
@pytest.mark.parametrize("bucket", [4, 64])
def test_the_variance_is_below_the_bounds(bits: Bits, bucket: int) -> None:
    s, draws = levels(bits), 2000
    encode = QSGD(bits=bits, bucket=bucket).build((bucket,)).encode
    rng, keys = np.random.default_rng(0), [Key.root(seed) for seed in range(draws)]
    for delta in (rng.standard_normal(bucket), np.ones(bucket)):
        delta_D = delta.astype(np.float32)
        drawn_ND = payloads.decode(encode(np.tile(delta_D, (draws, 1)), None, keys)[0])
        off = np.square(drawn_ND - delta_D).sum(axis=1).mean()
        lemma = min(bucket / s**2, bucket**0.5 / s)
        assert off <= 1.1 * min(lemma, bucket / (4 * s**2)) * np.square(delta_D).sum()


@around_the_edge
def test_it_contracts_while_the_bucket_is_below_four_levels_squared(
    bits: Bits, bucket: int, bias: str
) -> None:
    assert QSGD(bits=bits, bucket=bucket).bias == bias


def test_one_norm_over_ten_thousand_values_in_four_bits_expands() -> None:
    delta_D = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    decoded_D = payloads.decode(message(QSGD(bits=4, bucket=10_000), delta_D))
    assert np.square(decoded_D - delta_D).sum() / np.square(delta_D).sum() > 5


def test_coarse_levels_are_refused_in_a_memory() -> None:
    with pytest.raises(ValidationError, match="qsgd is unbiased with these settings"):
        ErrorFeedback(inner=QSGD(bits=2))


def test_a_bucket_of_tiny_or_of_huge_values_has_a_finite_norm() -> None:
    for size in (1e-44, 1e-30, 1e30):
        delta_D = np.full(16, size, np.float32)
        payload = message(QSGD(bits=8, bucket=16), delta_D)
        assert np.isfinite(payload.arrays["steps"]).all()
        assert float(np.abs(payloads.decode(payload)).max()) <= 1.1 * size
