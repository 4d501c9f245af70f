"""The wire format, byte by byte."""

import struct
from typing import Any

import numpy as np
import pytest

from fedcore import payloads
from fedcore.errors import PayloadError
from fedcore.payloads import (
    Payload,
    dense_payload,
    pack_indices,
    seeded_payload,
    sparse_payload,
    values_payload,
)
from fedcore.payloads.base import Format, register
from tests.golden.load import golden, golden_bytes, golden_payload

MESSAGES = golden("payloads")["payloads"]
PLAIN = [entry for entry in MESSAGES if golden_bytes(entry)[0] == 1]
every_message = pytest.mark.parametrize("entry", MESSAGES, ids=lambda e: e["comment"])


@pytest.mark.parametrize("entry", PLAIN, ids=lambda e: e["comment"])
def test_a_message_is_packed_into_these_bytes_and_no_others(entry: Any) -> None:
    payload = golden_payload(entry)
    assert payloads.pack(payload).hex(" ") == golden_bytes(entry).hex(" ")
    assert b"".join(payloads.pack_parts(payload)) == golden_bytes(entry)
    assert payload.nbytes == len(golden_bytes(entry))


@every_message
def test_these_bytes_are_unpacked_into_the_message(entry: Any) -> None:
    payload = golden_payload(entry)
    for data in (golden_bytes(entry), memoryview(golden_bytes(entry))):
        arrived = payloads.unpack(data, tuple(entry["layout"]))
        assert (arrived.format, arrived.dim) == (payload.format, payload.dim)
        assert set(arrived.arrays) == set(payload.arrays)
        for name, array in payload.arrays.items():
            assert arrived.arrays[name].tolist() == array.tolist(), name


def test_every_format_has_golden_bytes() -> None:
    assert {form.name for form in payloads.formats()} == {
        entry["format"] for entry in MESSAGES
    }
    assert {form.name: form.code for form in payloads.formats()} == {
        entry["format"]: golden_bytes(entry)[1] for entry in MESSAGES
    }


@every_message
def test_a_message_stands_for_this_vector(entry: Any) -> None:
    payload, expected = golden_payload(entry), entry["decoded"]
    if expected is None:
        with pytest.raises(PayloadError, match="no update"):
            payloads.decode(payload)
        return
    decoded_D = payloads.decode(payload)
    if isinstance(expected, list):
        assert decoded_D.tolist() == expected
    else:
        kept = np.flatnonzero(decoded_D)
        assert {str(i): float(decoded_D[i]) for i in kept} == expected


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "message ends early: 6 bytes expected, 0 left"),
        ("03 00 01000000 0000803f", "unknown payload version 3, expected 1 or 2"),
        ("01 63 01000000", "unknown payload format 99; known: 0 dense, "),
        ("01 00 02000000", "expected 1 values, got 2"),
        ("01 00 01000000 0000", "message ends early: 4 bytes expected, 2 left"),
        ("01 00 01000000 0000803f ff", "1 bytes too many at the end"),
        ("01 01 01000000 02000000", "2 entries in a message of 1 values"),
        ("01 01 01000000 01000000 07", "unknown index coding 7, expected 0, 1, 2 or 3"),
        ("01 01 01000000 01000000 00 0100 0000803f", "lie below 1"),
        ("01 01 01000000 01000000 02 00 0000803f", "expected 1 indices, got 0"),
        ("01 01 01000000 00000000 02 02", "expected 0 indices, got 1"),
        ("01 02 01000000 0000000000000000 02000000", "2 entries in a message of 1"),
        ("01 03 01000000 0200 00000000 00000000 00", "expected 1 or 1 scales, got 2"),
        ("01 04 01000000 03 01000000", r"unknown code width 3, expected one of \(8"),
        ("01 04 01000000 08 00000000", "a bucket must hold at least one value"),
        ("01 04 01000000 08 01000000 00000000 ff", "code 255 is above 254"),
        ("01 04 01000000 02 01000000 00000000 03", "code 3 is above 2"),
    ],
)
def test_junk_is_refused_with_a_sentence(message: str, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(bytes.fromhex(message), (1,))


STORED = "01 0400 fbff 0000803f"  # four bytes in a block as they are


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("03 04000000" + STORED, r"unknown stride 3, expected one of \(1, 2, 4\)"),
        ("01 05040000" + STORED, "1029 bytes deflated, expected at most 1028 about 1"),
        ("01 ffffffff" + STORED, "4294967295 bytes deflated, expected at most 1028"),
        ("01 05000000" + STORED, "no 5 bytes in the deflated message"),
        ("01 03000000" + STORED, "no 3 bytes in the deflated message"),
        ("01 04000000" + STORED[:-2], "no 4 bytes in the deflated message"),
        ("01 04000000" + STORED + "00", "1 bytes too many at the end of the message"),
        ("01 04000000 07", "no deflated message: Error -3"),
        ("01 04000000", "no 4 bytes in the deflated message"),
        ("01 0400", "message ends early: 5 bytes expected, 3 left"),
    ],
)
def test_junk_that_is_deflated_is_refused_with_a_sentence(
    message: str, reason: str
) -> None:
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(bytes.fromhex("02 00 01000000" + message), (1,))
    whole = payloads.unpack(bytes.fromhex("02 00 01000000 01 04000000" + STORED), (1,))
    assert payloads.decode(whole).tolist() == [1.0]


@pytest.mark.parametrize("indices", ["0000 0000", "0200 0100"])
def test_indices_that_do_not_ascend_are_refused(indices: str) -> None:
    message = f"01 01 03000000 02000000 00 {indices} 0000803f 0000803f"
    with pytest.raises(PayloadError, match="indices must ascend and lie below 3"):
        payloads.unpack(bytes.fromhex(message), (3,))


def test_a_zero_does_not_travel_in_an_update_unless_it_has_a_sign() -> None:
    indices, values = np.array([1, 2, 4]), np.array([0.0, -0.0, 3.0], np.float32)
    packed = payloads.pack(sparse_payload(5, indices, values))
    arrived = payloads.unpack(packed, (5,))
    assert arrived.arrays["indices"].tolist() == [2, 4]
    assert np.signbit(payloads.decode(arrived)).tolist() == [0, 0, 1, 0, 0]
    assert payloads.pack(arrived) == packed


def test_a_zero_is_a_value_to_overwrite_with() -> None:
    model_D = np.ones(5, np.float32)
    message = values_payload(5, np.array([1, 3]), np.array([0.0, 7.0], np.float32))
    payloads.overwrite(payloads.unpack(payloads.pack(message), (5,)), model_D)
    assert model_D.tolist() == [1, 0, 1, 7, 1]
    support = payloads.support(message)
    assert support is not None
    assert support.tolist() == [1, 3]


def test_new_values_are_no_update_and_an_update_is_no_new_value() -> None:
    model_D, indices = np.ones(5, np.float32), np.array([1])
    values = values_payload(5, indices, np.ones(1, np.float32))
    with pytest.raises(PayloadError, match="new values of a model are no update"):
        payloads.add(values, model_D)
    update = sparse_payload(5, indices, np.ones(1, np.float32))
    with pytest.raises(PayloadError, match="'sparse' holds no new values"):
        payloads.overwrite(update, model_D)
    assert model_D.tolist() == [1] * 5


@pytest.mark.parametrize(
    ("count", "dim", "coding"),
    [
        (1, 16, 0),  # 2 bytes, as the other codings take
        (2, 1 << 16, 0),  # gaps of 16 bits are no shorter than indices
        (1, (1 << 16) + 1, 1),
        (8, 16, 2),
        (50_000, 100_000, 2),
        (655, 1 << 16, 3),
        (1000, 100_000, 3),
    ],
)
def test_indices_take_the_smallest_of_their_codings(
    count: int, dim: int, coding: int
) -> None:
    rng = np.random.default_rng(0)
    indices_K = np.sort(rng.choice(dim, count, replace=False))
    head, *body = pack_indices(indices_K, dim)
    assert head[0] == coding
    sizes = [4 * count if dim > 1 << 16 else 2 * count, -(-dim // 8)]
    packed = len(head) - 1 + sum(memoryview(part).nbytes for part in body)
    assert packed < min(sizes) if coding == 3 else packed == min(sizes)


@pytest.mark.parametrize(
    ("density", "bits"),
    [(0.001, 11.47), (0.01, 8.11), (0.02, 7.10), (0.1, 4.76)],
)
def test_an_index_takes_as_many_bits_as_golomb_says(
    density: float, bits: float
) -> None:
    # b* + 1 / (1 - (1 - p)^(2^b*)): Sattler et al., "Robust and Communication-
    # Efficient Federated Learning from Non-IID Data", TNNLS 2020, eq. 17.
    dim = 1 << 20
    indices_K = np.flatnonzero(np.random.default_rng(1).random(dim) < density)
    parts = pack_indices(indices_K, dim)
    taken = 8 * sum(memoryview(part).nbytes for part in parts) / len(indices_K)
    assert taken == pytest.approx(bits, rel=0.01)


def test_a_code_names_one_format_for_ever() -> None:
    taken = payloads.formats()[0]
    form = Format("mine", taken.code, *taken[2:])
    with pytest.raises(ValueError, match=f"code 0 is taken by {taken.name!r}"):
        register(form)


def test_adding_writes_into_the_vector_and_rounds_after_each_operation() -> None:
    third, tenth = np.float32(1 / 3), np.float32(0.1)
    for payload in (
        dense_payload(np.array([third])),
        sparse_payload(1, np.array([0]), np.array([third])),
        seeded_payload(1, np.array(9, np.uint64), np.array([third])),
    ):
        out_D = np.array([tenth])
        payloads.add(payload, out_D, 0.7)
        assert out_D[0] == np.float32(tenth + np.float32(third * np.float32(0.7)))


def test_a_large_dense_message_is_added_block_by_block() -> None:
    rng, dim = np.random.default_rng(0), (1 << 17) + 5
    values_D, out_D = (rng.standard_normal(dim).astype(np.float32) for _ in range(2))
    expected_D = out_D + np.float32(0.3) * values_D
    payloads.add(dense_payload(values_D), out_D, 0.3)
    assert out_D.tobytes() == expected_D.tobytes()


@every_message
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_bad_number_shows_in_the_magnitude(entry: Any, bad: float) -> None:
    payload = golden_payload(entry)
    assert np.isfinite(payloads.magnitude(payload))
    for name, array in payload.arrays.items():
        if array.dtype == np.float32 and array.size:
            broken = array.copy()
            broken[-1] = bad
            arrays = {**payload.arrays, name: broken}
            message = Payload(payload.format, payload.dim, arrays)
            assert not np.isfinite(payloads.magnitude(message))


def test_an_unpacked_message_is_a_view_of_its_bytes() -> None:
    packed = struct.pack("<BBIff", 1, 0, 2, 1.0, 2.0)
    values = payloads.unpack(packed, (2,)).arrays["values"]
    assert np.shares_memory(values, np.frombuffer(packed, np.uint8))
    assert not values.flags.writeable


def test_rows_are_the_messages_of_a_stack() -> None:
    stack = dense_payload(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert [payloads.decode(row).tolist() for row in payloads.rows(stack)] == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]
