"""Semi-discrete decomposition."""

from dataclasses import replace

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import (
    DeadZone,
    ErrorFeedback,
    LowRank,
    PerTensor,
    SemiDiscrete,
    TopK,
)
from fedcore.errors import PayloadError
from fedcore.params import ParamSpec
from fedcore.payloads import Payload, Term, semi_discrete_payload, stack_terms
from fedcore.payloads.varint import pack_varints
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.fedcore.compressors.matrices import (
    approximated,
    gaussian,
    lost,
    message,
)

MODEL = ParamSpec.of(
    {
        "conv.weight": np.zeros((8, 4, 3, 3)),
        "conv.bias": np.zeros(8),
        "head": np.zeros((20, 30)),
    }
)


def like_an_update(rows: int, columns: int, seed: int = 0) -> Vector:
    """A sum of few outer products, and a little noise on all of it."""
    left, right = gaussian(rows, 4, seed), gaussian(4, columns, seed + 1)
    return left @ right + np.float32(0.2) * gaussian(rows, columns, seed + 2)


def numbers(rows: int, columns: int) -> Vector:
    """An outer product of -1, 0 and 1."""
    rng = np.random.default_rng(0)
    x_M, y_N = (rng.choice([-1, 0, 1, 1], size) for size in (rows, columns))
    return np.outer(x_M, y_N).astype(np.float32)


def test_a_matrix_that_is_one_term_is_found_exactly() -> None:
    m_MN = np.float32(0.375) * numbers(12, 17)
    assert approximated(SemiDiscrete(bits=0.1), m_MN).tobytes() == m_MN.tobytes()


def test_the_best_numbers_for_a_vector_are_found() -> None:
    """Of all 3^6 vectors, none is closer in direction."""
    every = np.stack(np.meshgrid(*[[-1, 0, 1]] * 6), axis=-1).reshape(-1, 6)[:, ::-1]
    every = every[np.abs(every).sum(axis=1) > 0].astype(np.float64)
    for seed in range(20):
        v_N = gaussian(1, 6, seed) ** 3
        best = (np.square(every @ v_N[0]) / np.square(every).sum(axis=1)).max()
        left = lost(SemiDiscrete(bits=0.1), v_N)
        # The weight has four bits: at most 1/17 off, which costs its square.
        share = best / np.square(v_N, dtype=np.float64).sum()
        assert 1 - share - 1e-6 <= left <= 1 - share * (1 - 1 / 17**2) + 1e-6


def test_of_an_update_it_holds_more_than_others_of_as_many_bytes() -> None:
    m_MN = like_an_update(120, 80)
    ours = SemiDiscrete(bits=0.4)
    spec = ParamSpec.of({"m": m_MN})
    size = message(ours, m_MN.reshape(-1), spec).nbytes
    rank = message(LowRank(rank=1), m_MN.reshape(-1), spec)
    sparse = message(DeadZone(ratio=0.06), m_MN.reshape(-1), spec)
    assert size < min(rank.nbytes, sparse.nbytes) < 2 * size
    assert lost(ours, m_MN) < lost(LowRank(rank=1), m_MN) - 0.1
    assert lost(ours, m_MN) < lost(DeadZone(ratio=0.06), m_MN) - 0.1


def test_more_bits_hold_more_and_more_iterations_do() -> None:
    m_MN = like_an_update(60, 90)
    left = [lost(SemiDiscrete(bits=bits), m_MN) for bits in (0.1, 0.3, 1, 2)]
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.1
    once, often = (
        np.mean(
            [
                lost(
                    SemiDiscrete(bits=0.3, iterations=count), like_an_update(30, 40, s)
                )
                for s in range(20)
            ]
        )
        for count in (1, 8)
    )
    assert often < once


@pytest.mark.parametrize("bits", [0.5, 1.0, 2.0])
def test_a_message_takes_about_the_bits_that_it_may(bits: float) -> None:
    sizes = [
        8 * message(SemiDiscrete(bits=bits), gaussian(1, MODEL.dim, s)[0], MODEL).nbytes
        for s in range(30)
    ]
    assert np.mean(sizes) == pytest.approx(bits * MODEL.dim, rel=0.25)


def test_where_there_is_little_bandwidth_there_are_fewer_terms() -> None:
    delta_D = gaussian(1, MODEL.dim)[0]
    short = SemiDiscrete(bits=1.0).shorter(0.2)
    assert short is not None
    sizes = [
        each.build_for(MODEL).encode(delta_D, None, Key.root(0))[0].nbytes
        for each in (SemiDiscrete(bits=1.0), short)
    ]
    assert sizes[1] == pytest.approx(0.2 * sizes[0], rel=0.4)


def test_tensors_share_what_they_may_take_by_what_it_brings() -> None:
    delta_D = gaussian(1, MODEL.dim)[0] * np.float32(1e-3)
    for number in (0, 2):
        loud_D = delta_D.copy()
        loud_D[MODEL.tensors[number].slice] *= 100
        terms = message(SemiDiscrete(bits=0.5), loud_D, MODEL).arrays["tensors"]
        assert set(terms.tolist()) == {number}


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-60, 2.0**90])
def test_values_of_any_size_are_compressed_alike(scale: float) -> None:
    m_MN = gaussian(10, 10)
    scaled = approximated(SemiDiscrete(bits=1), m_MN * np.float32(scale))
    expected = approximated(SemiDiscrete(bits=1), m_MN) * np.float32(scale)
    assert scaled.tobytes() == expected.tobytes()


def test_what_is_smaller_than_numbers_of_full_precision_says_nothing() -> None:
    tiny = np.full((3, 4), 2.0**-140, np.float32)
    assert not approximated(SemiDiscrete(), tiny).any()


def test_without_shapes_a_tensor_is_as_square_as_can_be() -> None:
    payload, _ = SemiDiscrete().build((24,)).encode(np.ones(24, "f"), None, Key.root(0))
    assert payload.arrays["rows"].tolist() == [4]


def test_a_memory_sends_in_time_what_the_terms_leave_out() -> None:
    delta_D = gaussian(8, 9).reshape(-1)
    spec = ParamSpec.of({"m": np.zeros((8, 9))})
    compressor = ErrorFeedback(inner=SemiDiscrete()).build_for(spec)
    memory_D, sent_D = compressor.init(72), np.zeros(72, np.float32)
    for step in range(200):
        payload, memory_D = compressor.encode(delta_D, memory_D, Key.root(step))
        payloads.add(payload, sent_D)
    np.testing.assert_allclose(sent_D / 200, delta_D, atol=0.1)


def test_parts_by_name_give_it_the_shapes_of_their_tensors() -> None:
    config = PerTensor(inner=SemiDiscrete(bits=1), exact=("*.bias",))
    delta_D = gaussian(1, MODEL.dim)[0]
    found_D = payloads.decode(message(config, delta_D, MODEL))
    bias = MODEL.tensors[1].slice
    assert found_D[bias].tobytes() == delta_D[bias].tobytes()
    sparse = PerTensor(inner=TopK(ratio=0.01), exact=("*.bias",))
    assert (
        np.square(found_D - delta_D).sum()
        < np.square(payloads.decode(message(sparse, delta_D, MODEL)) - delta_D).sum()
    )


# -------------------------------------------------------------------------- messages


def term(tensor: int, code: int, x: str, y: str) -> Term:
    """A term from factors like ``+0-``."""
    of = {"+": 1, "0": 0, "-": -1}
    x_M, y_N = (np.array([of[sign] for sign in part], np.int8) for part in (x, y))
    return Term(tensor, code, x_M, y_N)


def test_terms_add_up_and_each_value_is_rounded_once() -> None:
    """The sum 15·2^31 + 8 needs 36 bits; in single precision 8 + 8 would be lost."""
    terms = [term(0, 255, "+", "+-"), term(0, 0, "+", "++"), term(0, 0, "+", "++")]
    payload = semi_discrete_payload((2,), terms, -3)
    whole = 15 * 2**31
    expected = np.array([whole + 16, 16 - whole], np.float64) / 8
    assert payloads.decode(payload).tolist() == expected.astype(np.float32).tolist()
    assert payloads.magnitude(payload) == (whole + 16) / 8


def test_many_terms_about_little_are_refused_at_once() -> None:
    terms = pack_varints([70_000])
    body = bytes.fromhex("01 0d 80841e00 00") + terms
    with pytest.raises(PayloadError, match="70000 terms, expected at most 65536"):
        payloads.unpack(body, (2_000_000,))


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_in_the_memory(wrong: float) -> None:
    delta_D = np.ones(12, np.float32)
    delta_D[3] = wrong
    compressor = ErrorFeedback(inner=SemiDiscrete()).build((12,))
    payload, left_D = compressor.encode(delta_D, compressor.init(12), Key.root(0))
    assert not payloads.decode(payload).any()
    np.testing.assert_array_equal(left_D, delta_D)


def test_a_stack_of_messages_is_filled_up() -> None:
    one = semi_discrete_payload((2, 4), [term(1, 3, "+-", "0+")], 0)
    two = semi_discrete_payload(
        (2, 4), [term(0, 1, "+", "-+"), term(1, 2, "++", "++")], 1
    )
    none = semi_discrete_payload((2, 4), [], 0)
    stack = stack_terms([one, two, none])
    for row, alone in zip(payloads.rows(stack), (one, two, none), strict=True):
        assert payloads.pack(row) == payloads.pack(alone)
        assert payloads.decode(row).tolist() == payloads.decode(alone).tolist()


def test_messages_are_merged_where_their_sum_is_exact() -> None:
    layout, square = (2, 16), ("+-0+", "0+++")
    one = semi_discrete_payload(layout, [term(1, 3, *square)], -2)
    more = [term(0, 1, "+", "-+"), term(1, 2, "++++", "++++")]
    two = semi_discrete_payload(layout, more, 1)
    none = semi_discrete_payload(layout, [], 5)
    total = payloads.merge([one, none, two])
    assert total is not None
    expected = payloads.decode(one) + payloads.decode(two)
    assert payloads.decode(total).tolist() == expected.tolist()
    arrived = payloads.unpack(payloads.pack(total), layout)
    assert payloads.decode(arrived).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "messages",
    [
        [semi_discrete_payload((4,), [], 0)],  # there is nothing to say
        [  # a weight 2^32 times the other
            semi_discrete_payload((4,), [term(0, 0, "+", "++++")], step)
            for step in (0, 32)
        ],
        [  # 15·2^24 + 8 takes more than 24 bits
            semi_discrete_payload((4,), [term(0, code, "+", "++++")], 0)
            for code in (0, 8 * 24 + 7)
        ],
        [  # two shapes of one tensor
            semi_discrete_payload((4,), [term(0, 0, "+", "++++")], 0),
            semi_discrete_payload((4,), [term(0, 0, "++", "++")], 0),
        ],
        [semi_discrete_payload((4,), [term(0, 0, "++", "++")], 0)] * 2,  # 8 numbers
    ],
)
def test_messages_are_not_merged_where_that_would_change_them(
    messages: list[Payload],
) -> None:
    assert payloads.merge(messages) is None


def test_no_terms_are_a_vector_of_zeros() -> None:
    payload, _ = SemiDiscrete().build((6,)).encode(np.zeros(6, "f"), None, Key.root(0))
    assert payload.nbytes == 6 + 1 + 1 + 1 + 1  # header, step, terms, k, coding
    assert not payloads.decode(payload).any()
    assert payloads.magnitude(payload) == 0.0


def test_the_bytes_are_those_that_the_format_says() -> None:
    payload = semi_discrete_payload((300,), [term(0, 9, "+" * 20, "-" * 15)], -2)
    plain = replace(payload, deflates=False)
    # Header 6; step 1, terms 1, tensor 1, rows 1, weight 1, k 1; coding 1, bitmap 5;
    # signs 5.
    assert plain.nbytes == 6 + 6 + 6 + 5


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("81 00", "a step of 2\\^-127, expected at least 2\\^-126"),
        ("00 07", "7 terms, expected at most 6"),
        ("00 ffffffff7f", "a number above 4294967295"),
        ("00 ffffffffff01", "a number of more than five bytes"),
        ("00 01 02", "a term of tensor 2, known: 2"),
        ("00 01 01 00", "no matrix of 0 rows has 0 values"),
        ("00 01 00 04", "no matrix of 4 rows has 6 values"),
        ("00 01 00 00", "no matrix of 0 rows has 6 values"),
        (
            "00 03 000000 02",
            "factors of 15 numbers in 3 terms about 6 values",
        ),
        ("00 01 00 02 00 06", "6 entries in a message of 5 values"),
        ("00 01 00", "message ends early: 1 bytes expected, 0 left"),
    ],
)
def test_junk_is_refused_with_a_sentence(body: str, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(bytes.fromhex("01 0d 06000000" + body), (6, 0))
