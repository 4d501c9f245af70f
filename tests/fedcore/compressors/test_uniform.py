"""Uniform quantisation: error bounds, and when it is a contraction."""

from typing import Literal

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import ErrorFeedback, Uniform
from fedcore.payloads import Payload
from fedcore.payloads.quantised import levels
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.fedcore.compressors.edges import around_the_edge

Bits = Literal[8, 4, 2]
every_width = pytest.mark.parametrize("bits", [8, 4, 2])


def message(config: Uniform, delta_D: Vector, seed: int = 0) -> Payload:
    return config.build(delta_D.shape).encode(delta_D, None, Key.root(seed))[0]


def gaussian(dim: int, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)


def test_two_bits_are_minus_a_step_zero_and_a_step() -> None:
    delta_D = np.array([0.4, -1.0, -0.6, 0.0, 0.5], np.float32)
    decoded = payloads.decode(message(Uniform(bits=2), delta_D))
    assert decoded.tolist() == [0.0, -1.0, -1.0, 0.0, 0.0]  # ½ goes to the even side


def test_four_bits_are_fifteen_levels() -> None:
    delta_D = np.array([7.0, -7.0, 3.4, -2.6, 0.3], np.float32)
    payload = message(Uniform(bits=4), delta_D)
    assert payload.arrays["levels"].tolist() == [7, -7, 3, -3, 0]
    assert payload.arrays["steps"].tolist() == [1.0]


@every_width
def test_a_value_takes_its_bits_and_a_bucket_a_step(bits: Bits) -> None:
    payload = message(Uniform(bits=bits, bucket=100, deflate=False), gaussian(1000))
    assert payload.nbytes == 6 + 1 + 4 + 4 * 10 + 1000 * bits // 8


@every_width
def test_rounding_to_nearest_is_off_by_half_a_step_at_most(bits: Bits) -> None:
    delta_D = gaussian(1000)
    payload = message(Uniform(bits=bits, bucket=50), delta_D)
    step_D = np.repeat(payload.arrays["steps"], 50)
    off_D = np.abs(payloads.decode(payload) - delta_D)
    assert bool((off_D <= step_D * 0.500001).all())
    assert bool((off_D <= np.abs(delta_D) * 1.000001).all())


@every_width
def test_the_largest_value_of_each_bucket_is_kept(bits: Bits) -> None:
    delta_D = gaussian(1000)
    decoded_D = payloads.decode(message(Uniform(bits=bits, bucket=50), delta_D))
    largest = np.abs(delta_D).reshape(-1, 50).argmax(axis=1) + 50 * np.arange(20)
    np.testing.assert_allclose(decoded_D[largest], delta_D[largest], rtol=1e-6)


@every_width
def test_rounding_to_nearest_loses_at_most_one_minus_one_over_bucket(
    bits: Bits,
) -> None:
    bucket = 16
    just_below_half = np.full(bucket, 0.4999 / levels(bits), np.float32)
    just_below_half[3] = 1.0  # everything else is rounded away
    lost = np.square(
        payloads.decode(message(Uniform(bits=bits, bucket=bucket), just_below_half))
        - just_below_half
    ).sum()
    assert lost <= (1 - 1 / bucket) * np.square(just_below_half).sum()


@every_width
def test_stochastic_rounding_has_the_declared_variance(bits: Bits) -> None:
    bucket, draws = 16, 2000
    config = Uniform(bits=bits, bucket=bucket, rounding="stochastic")
    halves_D = np.full(bucket, 0.5 / levels(bits), np.float32)
    halves_D[0] = 1.0
    for delta_D in (halves_D, gaussian(bucket)):
        keys = [Key.root(seed) for seed in range(draws)]
        stack_ND = np.tile(delta_D, (draws, 1))
        encode = config.build((bucket,)).encode
        drawn_ND = payloads.decode(encode(stack_ND, None, keys)[0])
        off = np.square(drawn_ND - delta_D).sum(axis=1).mean()
        bound = bucket / (4 * levels(bits) ** 2) * np.square(delta_D).max()
        assert off <= 1.03 * bound
        np.testing.assert_allclose(
            drawn_ND.mean(axis=0),
            delta_D,
            atol=5 * 0.5 / levels(bits) / draws**0.5 * np.abs(delta_D).max(),
        )


@around_the_edge
def test_stochastic_rounding_contracts_while_the_bucket_is_below_four_levels_squared(
    bits: Bits, bucket: int, bias: str
) -> None:
    config = Uniform(bits=bits, bucket=bucket, rounding="stochastic")
    assert config.bias == bias
    assert Uniform(bits=bits, bucket=bucket).bias == "contraction"


def test_coarse_stochastic_rounding_is_refused_in_a_memory() -> None:
    with pytest.raises(ValueError, match="uniform is unbiased with these settings"):
        ErrorFeedback(inner=Uniform(bits=2, rounding="stochastic"))
    assert ErrorFeedback(inner=Uniform(bits=2)).inner.bias == "contraction"


def test_a_bucket_below_the_smallest_step_is_sent_as_zeros() -> None:
    tiny_D = np.array([1e-45, -1e-45, 0.0], np.float32)
    for rounding in ("nearest", "stochastic"):
        config = Uniform(rounding=rounding)
        assert payloads.decode(message(config, tiny_D)).tolist() == [0.0] * 3


def test_the_magnitude_counts_the_multiples_of_a_step() -> None:
    payload = message(Uniform(), np.ones(3, np.float32))
    assert payloads.magnitude(payload) == pytest.approx(1.0)
    huge = np.full_like(payload.arrays["steps"], 3e38)
    arrays = {**payload.arrays, "steps": huge}
    assert payloads.magnitude(Payload("quantised", 3, arrays)) > 3.4e38
