"""Scaled sign: Karimireddy et al., ICML 2019, §4."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import SignL1
from fedcore.payloads import Payload
from fedcore.rng import Key
from fedcore.typing import Vector


def message(
    delta_D: Vector,
    layout: payloads.Layout = (),
    per: Literal["tensor", "vector"] = "tensor",
) -> Payload:
    encode = SignL1(per=per).build(layout or delta_D.shape).encode
    return encode(delta_D, None, Key.root(0))[0]


def test_a_value_becomes_its_sign_times_the_mean_magnitude() -> None:
    delta_D = np.array([4.0, -1.0, -2.0, 1.0], np.float32)
    assert payloads.decode(message(delta_D)).tolist() == [2.0, -2.0, -2.0, 2.0]


def test_each_tensor_has_a_scale_or_all_have_one() -> None:
    delta_D, layout = np.array([1.0, -3.0, 10.0, -20.0], np.float32), (2, 2)
    per_tensor = payloads.decode(message(delta_D, layout))
    assert per_tensor.tolist() == [2.0, -2.0, 15.0, -15.0]
    per_vector = payloads.decode(message(delta_D, layout, "vector"))
    assert per_vector.tolist() == [8.5, -8.5, 8.5, -8.5]


def test_a_value_takes_one_bit() -> None:
    delta_D = np.ones(2410, np.float32)
    for layout, scales in (((2048, 32, 320, 10), 4), ((2410,), 1)):
        plain = replace(message(delta_D, layout), deflates=False)
        assert plain.nbytes == 6 + 2 + 4 * scales + 302


@pytest.mark.parametrize("seed", range(5))
def test_the_error_is_exactly_one_minus_delta(seed: int) -> None:
    delta_D = np.random.default_rng(seed).laplace(size=1000).astype(np.float32)
    squares = np.square(delta_D, dtype=np.float64).sum()
    contraction = np.abs(delta_D).sum(dtype=np.float64) ** 2 / (1000 * squares)
    lost = np.square(payloads.decode(message(delta_D)) - delta_D).sum()
    assert lost / squares == pytest.approx(1 - contraction, rel=1e-4)


def test_the_worst_vector_still_loses_only_one_minus_one_over_d() -> None:
    delta_D = np.zeros(50, np.float32)
    delta_D[7] = 3
    lost = np.square(payloads.decode(message(delta_D)) - delta_D).sum()
    assert lost / 9 == pytest.approx(1 - 1 / 50, rel=1e-5)


def test_a_zero_is_plus_or_minus_at_random_by_the_key() -> None:
    delta_D = np.zeros(1000, np.float32)
    delta_D[0] = 1000.0
    encode = SignL1().build((1000,)).encode
    signs_ND = np.stack(
        [
            payloads.decode(encode(delta_D, None, Key.root(seed))[0])[1:]
            for seed in range(20)
        ]
    )
    assert set(signs_ND.ravel().tolist()) == {1.0, -1.0}
    assert abs(signs_ND.mean()) < 0.03
    assert np.abs(signs_ND.mean(axis=0)).max() < 1


def test_values_that_are_not_zero_never_depend_on_the_key() -> None:
    delta_D = np.array([0.0, 1e-40, -1e-40, 0.0], np.float32)
    encode = SignL1().build((4,)).encode
    for seed in range(20):
        payload, _ = encode(delta_D, None, Key.root(seed))
        assert payload.arrays["positive"][1:3].tolist() == [True, False]
