"""Rotation: DRIVE and EDEN, and other quantisers of rotated vectors."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import (
    QSGD,
    Cast,
    CompressorConfig,
    ErrorFeedback,
    Natural,
    Rotation,
    SignL1,
    SignL2,
    TopK,
    Uniform,
)
from fedcore.errors import PayloadError
from fedcore.payloads.rotated import blocks, rotate, unrotate
from fedcore.rng import Key, bits
from fedcore.typing import Vector


def decoded(config: CompressorConfig, delta_D: Vector, seed: int = 0) -> Vector:
    encode = config.build(delta_D.shape).encode
    packed = payloads.pack(encode(delta_D, None, Key.root(seed))[0])
    vector: Vector = payloads.decode(payloads.unpack(packed, delta_D.shape))
    return vector


def error(config: CompressorConfig, delta_D: Vector) -> float:
    lost = np.square(decoded(config, delta_D) - delta_D, dtype=np.float64).sum()
    return float(lost / np.square(delta_D, dtype=np.float64).sum())


def student(dim: int, freedom: float = 3) -> Vector:
    return np.random.default_rng(0).standard_t(freedom, dim).astype(np.float32)


def hadamard(size: int) -> Vector:
    """Sylvester's matrix, entry by entry."""
    shared = np.arange(size)[:, np.newaxis] & np.arange(size)
    return np.where(np.bitwise_count(shared) % 2, -1.0, 1.0).astype(np.float32)


@pytest.mark.parametrize(
    ("dim", "sizes"),
    [
        (0, [256]),
        (1, [256]),
        (256, [256]),
        (257, [256, 256]),
        (2410, [1024, 1024, 256, 256]),
        (9000, [4096, 4096, 256, 256, 256, 256]),
    ],
)
def test_blocks_are_powers_of_four_and_pad_by_less_than_256(
    dim: int, sizes: list[int]
) -> None:
    assert list(blocks(dim)) == sizes
    assert sum(sizes) - max(dim, 1) < 256


@pytest.mark.parametrize("dim", [3, 256, 1024, 1300])
def test_the_rotation_is_the_matrix_of_hadamard_times_signs(dim: int) -> None:
    seed, x_D = np.array(7, np.uint64), student(dim)
    padded = np.zeros(sum(blocks(dim)))
    padded[:dim] = x_D
    words = bits(seed, 0, len(padded) // 64).tolist()
    minus = [word >> place & 1 for word in words for place in range(64)]
    padded *= 1 - 2 * np.array(minus)
    at, expected = 0, []
    for size in blocks(dim):
        expected.append(hadamard(size) @ padded[at : at + size] / np.sqrt(size))
        at += size
    np.testing.assert_allclose(rotate(x_D, seed), np.concatenate(expected), atol=1e-5)


@pytest.mark.parametrize("dim", [1, 255, 5000, 70_000])
def test_the_rotation_keeps_the_norm_and_can_be_undone(dim: int) -> None:
    seed, x_D = np.array(3, np.uint64), student(dim)
    y = rotate(x_D, seed)
    assert np.linalg.norm(y) == pytest.approx(np.linalg.norm(x_D), rel=1e-5)
    before = y.tobytes()
    np.testing.assert_allclose(unrotate(y, seed, dim), x_D, atol=1e-4)
    assert y.tobytes() == before


def test_whole_numbers_are_rotated_without_rounding() -> None:
    x_D = np.arange(-2000, 2410, dtype=np.float32)
    seed = np.array(11, np.uint64)
    assert unrotate(rotate(x_D, seed), seed, len(x_D)).tolist() == x_D.tolist()


@pytest.mark.parametrize("freedom", [1.5, 3, 1000])
def test_one_bit_loses_at_most_one_minus_two_over_pi_of_any_vector(
    freedom: float,
) -> None:
    assert error(Rotation(), student(1 << 16, freedom)) < 1 - 2 / np.pi + 0.01


def test_without_the_rotation_heavy_tails_lose_more() -> None:
    delta_D = student(1 << 16, 1.5)
    assert error(SignL1(), delta_D) > 0.9
    assert error(Uniform(bits=4), student(1 << 16)) > 0.08
    assert error(Rotation(inner=Uniform(bits=4)), student(1 << 16)) < 0.02


def test_the_unbiased_scale_loses_half_of_pi_minus_one() -> None:
    delta_D = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float32)
    config = Rotation(scale="unbiased")
    assert error(config, delta_D) == pytest.approx(np.pi / 2 - 1, abs=0.01)
    product = np.dot(decoded(config, delta_D).astype(np.float64), delta_D)
    assert product == pytest.approx(np.square(delta_D).sum(), rel=1e-3)


def test_the_mean_of_many_unbiased_messages_is_right_and_that_of_others_too_short() -> (
    None
):
    delta_D = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    stack_ND, keys = np.tile(delta_D, (400, 1)), [Key.root(seed) for seed in range(400)]
    for config, length in [(Rotation(scale="unbiased"), 1), (Rotation(), 2 / np.pi)]:
        payload, _ = config.build((4096,)).encode(stack_ND, None, keys)
        mean_D = payloads.decode(payload).mean(axis=0)
        share = np.dot(mean_D, delta_D) / np.dot(delta_D, delta_D)
        assert share == pytest.approx(length, abs=0.01)
        # 400 messages bring the norm of the error down to a twentieth.
        off = np.linalg.norm(mean_D - length * delta_D) / np.linalg.norm(delta_D)
        assert off < 0.06


def test_one_huge_value_hides_its_block_and_so_no_law_is_claimed() -> None:
    delta_D = np.full(256, 1e-3, np.float32)
    delta_D[9] = 1
    config = Rotation(scale="unbiased")
    means = np.mean([decoded(config, delta_D, seed) for seed in range(50)], axis=0)
    assert np.abs(np.delete(means, 9)).max() < 0.5e-3
    assert config.bias == "neither"


def test_each_block_has_its_scale_or_all_have_one() -> None:
    def size(config: Rotation) -> int:
        encode = config.build((2410,)).encode
        return encode(student(2410), None, Key.root(0))[0].nbytes

    # Headers 6 and 6, seed 8, count 2, four scales or one, 2560 bits.
    assert size(Rotation()) == 6 + 8 + 6 + 2 + 4 * 4 + 320
    assert size(Rotation(inner=SignL1(per="vector"))) == 6 + 8 + 6 + 2 + 4 + 320


@pytest.mark.parametrize(
    ("inner", "bias"),
    [
        (SignL1(), "contraction"),
        (SignL2(), "neither"),
        (Natural(), "contraction"),
        (Uniform(), "contraction"),
        (QSGD(bits=4), "unbiased"),
        (QSGD(bits=4, bucket=64), "contraction"),
    ],
)
def test_a_rotation_obeys_the_law_of_what_it_holds(
    inner: CompressorConfig, bias: str
) -> None:
    assert Rotation(inner=inner).bias == bias


def test_stochastic_levels_are_right_on_average_after_a_rotation() -> None:
    delta_D = student(100)
    stack_ND, keys = np.tile(delta_D, (2000, 1)), [Key.root(s) for s in range(2000)]
    config = Rotation(inner=QSGD(bits=4, bucket=256))
    drawn_ND = payloads.decode(config.build((100,)).encode(stack_ND, None, keys)[0])
    off_D = np.abs(drawn_ND.mean(axis=0) - delta_D)
    assert bool((off_D < 5 * drawn_ND.std(axis=0) / 2000**0.5).all())


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (TopK(), "top_k gains nothing from a rotation; choose a quantiser"),
        (Cast(), "cast gains nothing from a rotation"),
        (Rotation(), "rotation gains nothing from a rotation"),
        (ErrorFeedback(), "error_feedback inside rotation: put the memory around it"),
    ],
)
def test_senseless_combinations_are_refused_with_a_sentence(
    inner: CompressorConfig, reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        Rotation(inner=inner)


def test_the_unbiased_scale_is_for_signs() -> None:
    with pytest.raises(ValidationError, match=r"unbiased is for sign_l1.*uniform has"):
        Rotation(inner=Uniform(), scale="unbiased")


def test_a_memory_takes_the_contraction_and_refuses_the_unbiased_scale() -> None:
    assert ErrorFeedback(inner=Rotation()).bias == "contraction"
    with pytest.raises(ValidationError, match="rotation is neither with these"):
        ErrorFeedback(inner=Rotation(scale="unbiased"))


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("01 00 00010000", "format 0 cannot be rotated; these can: 3 sign, 4 qua"),
        ("01 09 00010000", "format 9 cannot be rotated"),
        ("01 03 01000000 0100 00000000 00", "expected 256 values, got 1"),
        ("02 03 00010000", "unknown payload version 2"),
        ("01", "message ends early: 6 bytes expected, 1 left"),
        ("01 03 00010000 0100 00000000 00", "message ends early: 32 bytes expected"),
    ],
)
def test_junk_is_refused_with_a_sentence(inner: str, reason: str) -> None:
    message = bytes.fromhex("01 09 01000000 0700000000000000" + inner)
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(message, (1,))
