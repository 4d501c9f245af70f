"""Half precision: rounding, saturation, and the bytes."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import Cast
from fedcore.errors import PayloadError
from fedcore.payloads import Payload
from fedcore.rng import Key

Kind = Literal["float16", "bfloat16"]
every_kind = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


def message(dtype: Kind, *values: float) -> Payload:
    delta_D = np.array(values, np.float32)
    return Cast(dtype=dtype).build(delta_D.shape).encode(delta_D, None, Key.root(0))[0]


def cast(dtype: Kind, *values: float) -> list[float]:
    packed = payloads.pack(message(dtype, *values))
    decoded: list[float] = payloads.decode(
        payloads.unpack(packed, (len(values),))
    ).tolist()
    return decoded


def test_float16_rounds_to_eleven_bits_and_ties_to_even() -> None:
    ulp = 2.0**-10
    values = [1 + ulp / 2, 1 + 1.5 * ulp, -1 - 0.51 * ulp, 2049.0]
    assert cast("float16", *values) == [1.0, 1 + 2 * ulp, -1 - ulp, 2048.0]


def test_bfloat16_rounds_to_eight_bits_and_ties_to_even() -> None:
    ulp = 2.0**-7
    values = [1 + ulp / 2, 1 + 1.5 * ulp, -1 - 0.51 * ulp, 257.0]
    assert cast("bfloat16", *values) == [1.0, 1 + 2 * ulp, -1 - ulp, 256.0]


def test_what_is_too_large_becomes_the_largest_and_not_infinite() -> None:
    assert cast("float16", 65519, 65520, -1e30, 3.4e38) == [
        65504.0,
        65504.0,
        -65504.0,
        65504.0,
    ]
    largest = (2 - 2.0**-7) * 2.0**127
    assert cast("bfloat16", 3.4028235e38, -3.4e38, 3.38e38) == [
        largest,
        -largest,
        (2 - 2.0**-6) * 2.0**127,
    ]


def test_float16_loses_what_is_below_half_of_its_smallest_number() -> None:
    smallest = 2.0**-24
    values = [smallest, smallest / 2, 0.51 * smallest, 1e-10, 1.5 * smallest]
    assert cast("float16", *values) == [smallest, 0, smallest, 0, 2 * smallest]


def test_bfloat16_keeps_subnormals() -> None:
    smallest = 2.0**-133
    assert cast("bfloat16", smallest, -3.4 * smallest) == [smallest, -3 * smallest]


@every_kind
def test_a_zero_keeps_its_sign(dtype: Kind) -> None:
    assert payloads.pack(message(dtype, 0.0, -0.0))[-4:] == b"\x00\x00\x00\x80"


@every_kind
def test_a_value_takes_two_bytes(dtype: Kind) -> None:
    plain = replace(message(dtype, *range(100)), deflates=False)
    assert plain.nbytes == 6 + 1 + 200


@pytest.mark.parametrize(("dtype", "error"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_the_relative_error_is_half_of_the_last_bit(dtype: Kind, error: float) -> None:
    delta_D = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    delta_D[np.abs(delta_D) < 1e-4] = 1  # subnormals of float16 are coarser
    off_D = np.abs(np.array(cast(dtype, *delta_D.tolist())) - delta_D)
    assert bool((off_D <= error * np.abs(delta_D)).all())


def test_an_unknown_kind_of_numbers_is_refused() -> None:
    with pytest.raises(PayloadError, match="unknown kind 2 of 16-bit numbers"):
        payloads.unpack(bytes.fromhex("01 07 01000000 02 0000"), (1,))


def test_numbers_that_are_not_finite_show_in_the_magnitude() -> None:
    for body in ("00 007c", "00 017d", "01 807f", "01 817f"):
        arrived = payloads.unpack(bytes.fromhex("01 07 01000000" + body), (1,))
        assert not np.isfinite(payloads.magnitude(arrived))
