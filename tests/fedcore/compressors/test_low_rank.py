"""Low rank: PowerSGD."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import (
    Compressor,
    Context,
    ErrorFeedback,
    LowRank,
    PerTensor,
    Rotation,
)
from fedcore.errors import PayloadError
from fedcore.params import ParamSpec
from fedcore.payloads import Payload, low_rank_payload
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.fedcore.compressors.matrices import (
    approximated,
    gaussian,
    lost,
    message,
)

CONV = ParamSpec.of(
    {
        "conv.weight": np.zeros((4, 2, 3, 3)),
        "conv.bias": np.zeros(4),
        "small": np.zeros((2, 2)),
    }
)


def falling(rows: int, columns: int) -> Vector:
    """A matrix with the singular values 1, 1/2, 1/4 and so on."""
    u, _, v = np.linalg.svd(gaussian(rows, columns), full_matrices=False)
    values = 0.5 ** np.arange(min(rows, columns))
    return np.asarray((u * values) @ v, np.float32)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_matrix_of_its_rank_is_found_at_once(rank: int) -> None:
    m_MN = gaussian(20, rank) @ gaussian(rank, 30)
    found_MN = approximated(LowRank(rank=rank, iterations=1), m_MN)
    np.testing.assert_allclose(found_MN, m_MN, atol=1e-4)


def test_of_a_diagonal_the_largest_values_are_found() -> None:
    m_MN = np.diag(np.array([9, 1, 0.1, 0.01, 0, 0, 0, 0], np.float32))
    found_MN = approximated(LowRank(rank=2, iterations=8), m_MN)
    np.testing.assert_allclose(np.diag(found_MN)[:3], [9, 1, 0], atol=1e-4)
    assert np.abs(found_MN - np.diag(np.diag(found_MN))).max() < 1e-3


def test_many_iterations_come_to_the_best_matrix_of_this_rank() -> None:
    m_MN = falling(24, 40)
    squares = 0.25 ** np.arange(24)
    best = squares[3:].sum() / squares.sum()
    assert lost(LowRank(rank=3, iterations=16), m_MN) == pytest.approx(best, rel=1e-3)


def test_two_iterations_lose_less_than_one() -> None:
    m_MN = falling(24, 40)
    once, twice = (
        np.mean([lost(LowRank(iterations=count), m_MN, seed) for seed in range(50)])
        for count in (1, 2)
    )
    best = 1 / 16  # all but the first two of the squares 1, 1/4, 1/16, …
    assert best < twice < 1.5 * best < once


def test_of_equal_singular_values_each_rank_finds_its_share() -> None:
    m_MN = np.linalg.qr(gaussian(12, 12)).Q
    for rank in (1, 3):
        assert lost(LowRank(rank=rank), m_MN) == pytest.approx(1 - rank / 12, abs=1e-4)


def test_noise_of_columns_that_depend_on_others_is_not_sent() -> None:
    m_MN = np.outer(np.arange(1, 21), np.arange(1, 31)).astype(np.float32)
    for seed in range(20):
        assert lost(LowRank(rank=8), m_MN, seed) < 1e-10


@pytest.mark.parametrize("scale", [2.0**-130, 2.0**-60, 2.0**90])
def test_values_of_any_size_are_compressed_alike(scale: float) -> None:
    m_MN = gaussian(10, 10)
    scaled = lost(LowRank(rank=3), m_MN * np.float32(scale))
    assert scaled == pytest.approx(lost(LowRank(rank=3), m_MN), rel=1e-3)


def test_kernels_are_matrices_and_all_else_is_exact() -> None:
    delta_D = np.arange(1, CONV.dim + 1, dtype=np.float32)
    delta_D[:72] = np.outer(np.arange(1, 5), np.arange(1, 19)).reshape(-1)
    payload = message(LowRank(rank=1), delta_D, CONV)
    np.testing.assert_allclose(payloads.decode(payload), delta_D, rtol=1e-5)
    assert payloads.decode(payload)[72:].tolist() == delta_D[72:].tolist()
    # Header 6, count 2; twice count, coding, bitmap, size and header 14; eight floats;
    # rows 4 and rank 1, and 4 + 18 floats.
    plain = replace(payload, deflates=False)
    assert plain.nbytes == 6 + 2 + 2 * 14 + 8 * 4 + 5 + 22 * 4


def test_a_rank_that_makes_nothing_smaller_is_left_out() -> None:
    spec = ParamSpec.of({"m": np.zeros((4, 6))})
    delta_D = gaussian(4, 6).reshape(-1)
    assert message(LowRank(rank=2), delta_D, spec).format == "low_rank"  # 20 < 24
    whole = message(LowRank(rank=3), delta_D, spec)
    assert whole.format == "dense"
    assert payloads.decode(whole).tolist() == delta_D.tolist()


def test_without_shapes_a_tensor_is_as_square_as_can_be() -> None:
    encode = LowRank(rank=1).build((24,)).encode
    payload, _ = encode(gaussian(1, 24).reshape(-1), None, Key.root(0))
    assert [payload.arrays[name].shape for name in "pq"] == [(1, 4), (1, 6)]


def test_a_memory_sends_in_time_what_the_rank_leaves_out() -> None:
    delta_D = gaussian(8, 9).reshape(-1)
    spec = ParamSpec.of({"m": np.zeros((8, 9))})
    compressor = ErrorFeedback(inner=LowRank(rank=1)).build_for(spec)
    memory_D, sent_D = compressor.init(72), np.zeros(72, np.float32)
    for step in range(200):
        payload, memory_D = compressor.encode(delta_D, memory_D, Key.root(step))
        payloads.add(payload, sent_D)
    np.testing.assert_allclose(sent_D / 200, delta_D, atol=0.1)


def test_products_are_added_in_order_each_rounded_by_itself() -> None:
    p_RM, q_RN = gaussian(5, 7), gaussian(5, 9)
    expected = np.zeros((7, 9), np.float32)
    for i in range(7):
        for j in range(9):
            total = p_RM[0, i] * q_RN[0, j]
            for rank in range(1, 5):
                total = np.float32(total + np.float32(p_RM[rank, i] * q_RN[rank, j]))
            expected[i, j] = total
    decoded = payloads.decode(low_rank_payload(p_RM, q_RN))
    assert decoded.tobytes() == expected.tobytes()


def test_the_magnitude_bounds_every_value() -> None:
    p_RM = np.array([[1, 0.5], [0, 2]], np.float32)
    payload = low_rank_payload(p_RM, np.array([[3, -3], [1, 1]], np.float32))
    assert payloads.decode(payload).tolist() == [3, -3, 3.5, 0.5]
    assert payloads.magnitude(payload) == pytest.approx(2 * 2 * 3, rel=1e-4)
    zeros = np.zeros((1, 2), np.float32)
    assert payloads.magnitude(low_rank_payload(zeros, zeros)) == 0


# -------------------------------------------------------------------------- settings


def test_parts_by_name_give_it_the_shapes_of_their_tensors() -> None:
    config = PerTensor(inner=LowRank(rank=1), exact=("*.bias",), exact_below=5)
    delta_D = np.arange(1, CONV.dim + 1, dtype=np.float32)
    alone = message(LowRank(rank=1), delta_D, CONV)
    assert message(config, delta_D, CONV).nbytes == alone.nbytes


def test_one_vector_of_many_tensors_is_no_matrix() -> None:
    with pytest.raises(ValidationError, match="together: true says nothing to low_ra"):
        PerTensor(inner=LowRank(), exact=("*.bias",), together=True)


def test_nothing_is_rotated_that_is_a_product() -> None:
    with pytest.raises(ValidationError, match="low_rank gains nothing from a rotation"):
        Rotation(inner=LowRank())


@pytest.mark.parametrize("rank", [0, 65])
def test_a_rank_that_does_not_travel_is_refused(rank: int) -> None:
    with pytest.raises(ValidationError, match="rank"):
        LowRank(rank=rank)


# ------------------------------------------------------------------------------ junk


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("00000000 01", "no matrix of 0 rows has 6 values"),
        ("04000000 01", "no matrix of 4 rows has 6 values"),
        ("02000000 00", "rank 0 of a matrix of 2 x 3"),
        ("02000000 03", "rank 3 of a matrix of 2 x 3"),
        ("ffffffff 01", "no matrix of 4294967295 rows"),
        ("02000000 01 0000803f", "message ends early: 8 bytes expected, 4 left"),
    ],
)
def test_junk_is_refused_with_a_sentence(body: str, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(bytes.fromhex("01 0b 06000000" + body), (6,))


def test_a_rank_that_would_take_long_to_decode_is_refused() -> None:
    message = bytes.fromhex("01 0b 40420f00 e8030000 41")  # a million values, rank 65
    with pytest.raises(PayloadError, match="rank 65 of a matrix of 1000 x 1000"):
        payloads.unpack(message, (1_000_000,))


def at(compressor: Compressor, version: int, previous: Payload | None) -> Compressor:
    """The compressor of a sender whose last message was this."""
    assert compressor.recall is not None
    recalled = None if previous is None else compressor.recall(previous)
    return compressor.at(lambda: Context(version, np.zeros(1, np.float32), recalled))


def streamed(config: LowRank, warm: bool) -> float:
    """The share of the squared norm that is left out, where updates are alike."""
    m_MN, previous, shares = gaussian(40, 60), None, []
    compressor = config.build_for(ParamSpec.of({"m": m_MN}))
    for turn in range(30):
        own_MN = m_MN + np.float32(0.1) * np.roll(m_MN, turn, axis=0)
        delta_D = own_MN.reshape(-1)
        now = at(compressor, turn, previous if warm else None)
        previous, _ = now.encode(delta_D, None, Key.root(turn))
        left_D = delta_D - payloads.decode(previous)
        shares.append(np.square(left_D).sum() / np.square(delta_D).sum())
    return float(np.mean(shares[5:]))


def test_a_warm_start_finds_more() -> None:
    config = LowRank(rank=2, iterations=1)
    assert streamed(config, warm=True) < streamed(config, warm=False) - 0.005


def test_a_warm_start_can_be_declined() -> None:
    assert LowRank(warm_start=False).build((6, 6)).adapt is None
    assert LowRank().build((30, 40)).adapt is not None


def test_a_warm_start_that_found_nothing_begins_anew() -> None:
    """The message before was about zeros; or it was about other directions."""
    m_MN = np.zeros((6, 8), np.float32)
    m_MN[0, 0] = 1.0
    compressor = LowRank(rank=1).build_for(ParamSpec.of({"m": m_MN}))
    for column in (None, 1):
        before_MN = np.zeros_like(m_MN)
        if column is not None:
            before_MN[1, column] = 1.0
        previous, _ = compressor.encode(before_MN.reshape(-1), None, Key.root(1))
        now = at(compressor, 1, previous)
        message, _ = now.encode(m_MN.reshape(-1), None, Key.root(2))
        assert payloads.decode(message)[0] == pytest.approx(1.0)


def test_parts_of_an_earlier_message_warm_their_own_tensors() -> None:
    spec = ParamSpec.of({"a": gaussian(20, 30), "b": np.zeros(3), "c": gaussian(9, 9)})
    compressor = LowRank(rank=1, iterations=1).build_for(spec)
    delta_D = np.random.default_rng(1).standard_normal(spec.dim).astype(np.float32)
    left, previous = [], None
    for turn in range(12):
        now = at(compressor, turn, previous)
        previous, _ = now.encode(delta_D, None, Key.root(turn))
        left.append(float(np.square(delta_D - payloads.decode(previous)).sum()))
    assert left[-1] < left[0] - 1
