"""Natural compression: Horváth et al., arXiv 1905.10988."""

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import ErrorFeedback, Natural
from fedcore.errors import PayloadError
from fedcore.payloads import Payload
from fedcore.rng import Key
from fedcore.typing import Vector

DRAWS = 4000


def message(delta_D: Vector, seed: int = 0) -> Payload:
    config = Natural(deflate=False)
    return config.build(delta_D.shape).encode(delta_D, None, Key.root(seed))[0]


def draws(delta_D: Vector) -> Vector:
    """What many keys make of a vector, one a row."""
    keys = [Key.root(seed) for seed in range(DRAWS)]
    encode = Natural().build(delta_D.shape).encode
    vectors: Vector = payloads.decode(
        encode(np.tile(delta_D, (DRAWS, 1)), None, keys)[0]
    )
    return vectors


def f32(*values: float) -> Vector:
    return np.array(values, np.float32)


def test_a_value_becomes_a_neighbour_with_the_right_chance() -> None:
    # The paper's example: 2.5 becomes 2 with probability 0.75 and 4 with 0.25.
    drawn_ND = draws(f32(2.5, -2.75))
    assert set(np.unique(drawn_ND).tolist()) == {-4.0, -2.0, 2.0, 4.0}
    assert (drawn_ND[:, 0] == 4).mean() == pytest.approx(0.25, abs=0.03)
    assert (drawn_ND[:, 1] == -4).mean() == pytest.approx(0.375, abs=0.03)


def test_powers_of_two_and_zeros_stay_what_they_are() -> None:
    exponents = np.arange(-149, 128)
    delta_D = np.concatenate([np.ldexp(f32(1), exponents), f32(0.0, -0.0, -1.0)])
    for seed in range(5):
        assert payloads.decode(message(delta_D, seed)).tobytes() == delta_D.tobytes()


def test_the_variance_is_an_eighth_at_worst() -> None:
    # (x - 1)(2 - x) of x² is largest at 4/3: (1/3 · 2/3) / (16/9) = 1/8.
    worst = f32(*[4 / 3] * 50)
    off = np.square(draws(worst) - worst).sum(axis=1).mean()
    assert off / np.square(worst).sum() == pytest.approx(1 / 8, rel=0.02)
    delta_D = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    off = np.square(draws(delta_D) - delta_D).sum(axis=1).mean()
    assert off / np.square(delta_D).sum() < 1 / 8


def test_a_subnormal_is_rounded_like_any_other_number() -> None:
    three = 3 * 2.0**-149  # to 2 or 4 of the smallest
    drawn_ND = draws(f32(three, 1.5 * 2.0**-126, 0.0))
    assert set((drawn_ND[:, 0].astype(np.float64) * 2.0**149).tolist()) == {2.0, 4.0}
    assert drawn_ND[:, 0].astype(np.float64).mean() == pytest.approx(three, rel=0.03)
    assert set(drawn_ND[:, 1].tolist()) == {2.0**-126, 2.0**-125}
    assert not drawn_ND[:, 2].any()


def test_nothing_becomes_infinite() -> None:
    drawn_ND = draws(f32(3.4e38, -3.4e38, 1.5 * 2.0**126))
    assert set(drawn_ND[:, 0].tolist()) == {2.0**127}
    assert set(drawn_ND[:, 1].tolist()) == {-(2.0**127)}
    assert set(drawn_ND[:, 2].tolist()) == {2.0**126, 2.0**127}


def test_a_value_takes_a_sign_and_the_planes_that_the_magnitudes_span() -> None:
    # Exponents 0 to 2 and zero: codes 0 to 3 in two planes.
    assert message(np.tile(f32(1, 2, 4, 0), 20)).nbytes == 6 + 3 + 10 * 3
    # Exponents 0 to 30: codes to 31 in five planes, 6 bits a value.
    assert message(np.ldexp(f32(1), np.arange(31)).repeat(8)).nbytes == 6 + 3 + 31 * 6
    assert message(np.zeros(80, np.float32)).nbytes == 6 + 3 + 10


def test_a_bell_curve_takes_six_bits_a_value() -> None:
    delta_D = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    assert 8 * message(delta_D).nbytes / 100_000 == pytest.approx(6, abs=0.01)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("6aff 00 00", r"no powers of two from 2\^-150 in 0 planes"),
        ("8000 00 00", r"no powers of two from 2\^128 in 0 planes"),
        ("0000 0a 00", r"no powers of two from 2\^0 in 10 planes"),
        ("7f00 02 00 00 01", "code 2 is above 1"),
        ("0000 02 00 00", "message ends early: 3 bytes expected, 2 left"),
    ],
)
def test_junk_is_refused_with_a_sentence(body: str, reason: str) -> None:
    message = bytes.fromhex("01 08 01000000" + body)
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(message, (1,))


def test_it_contracts_unscaled_and_may_sit_in_a_memory() -> None:
    assert ErrorFeedback(inner=Natural()).bias == "contraction"
