"""A peer's bytes are a claim: they yield a vector, or a PayloadError, and no more."""

import contextlib
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore import payloads
from fedcore.compressors import CompressorConfig, DeadZone, RandomK, TopK
from fedcore.errors import PayloadError
from fedcore.payloads import Layout
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.golden.load import golden, golden_bytes
from tests.laws.compressors import ALONE, encode
from tests.laws.fuzz import deflated_again
from tests.laws.registered import named
from tests.laws.vectors import Given, vector

MESSAGES = golden("payloads")["payloads"]
every_message = pytest.mark.parametrize("entry", MESSAGES, ids=lambda e: e["hex"])
every_format = pytest.mark.parametrize(
    "form", payloads.formats(), ids=lambda form: form.name
)
LAYOUTS: list[Layout] = [(1,), (3,), (2, 1), (0, 5), (7, 4), (300,)]
NUMBERS = [0, 1, 2, 3, 255, 256, 65535, 65536, 2**31, 2**32 - 1]


def read(data: bytes, layout: Layout) -> Vector | None:
    """The vector that these bytes stand for, or None after a PayloadError."""
    dim = sum(layout)
    try:
        payload = payloads.unpack(data, layout)
    except PayloadError:
        return None
    if payload.format == "values":
        return overwritten(payload, dim)
    # NaN and infinity are numbers of a vector, too; the magnitude tells.
    with np.errstate(all="ignore"):
        vector = payloads.decode(payload)
        out_D = np.zeros(dim, np.float32)
        payloads.add(payload, out_D)
        largest = payloads.magnitude(payload)
    assert (vector.shape, vector.dtype) == ((dim,), np.float32)
    assert np.array_equal(vector, out_D, equal_nan=True)
    if largest <= float(np.finfo(np.float32).max):  # not if it is NaN
        assert (np.abs(vector) <= np.float32(largest)).all()
    support = payloads.support(payload)
    assert support is None or set(np.flatnonzero(vector)) <= set(support)
    return out_D


def overwritten(values: payloads.Payload, dim: int) -> Vector:
    """What new values make of a model of zeros; they are no update."""
    out_D = np.zeros(dim, np.float32)
    for use in (payloads.decode, lambda payload: payloads.add(payload, out_D)):
        with pytest.raises(PayloadError):
            use(values)
    payloads.overwrite(values, out_D)
    support = payloads.support(values)
    assert support is not None
    assert set(np.flatnonzero(out_D)) <= set(support)
    return out_D


@given(st.binary(max_size=64), st.sampled_from(LAYOUTS))
@settings(max_examples=200)
def test_any_bytes_are_a_vector_or_an_error(data: bytes, layout: Layout) -> None:
    read(data, layout)


@every_format
@given(st.data())
@settings(max_examples=200)
def test_any_bytes_behind_a_good_header_are_a_vector_or_an_error(
    form: payloads.Format, data: st.DataObject
) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS))
    numbers = st.sampled_from(NUMBERS)
    claim = data.draw(
        st.builds(lambda n: struct.pack("<I", n), numbers)
        | st.builds(lambda n: struct.pack("<H", n % 65536), numbers)
        | st.builds(lambda w, n: struct.pack("<BI", w % 256, n), numbers, numbers)
        | st.builds(lambda s, n: struct.pack("<QI", s << 32, n), numbers, numbers)
    )
    body = data.draw(st.binary(max_size=40))
    read(struct.pack("<BBI", 1, form.code, sum(layout)) + claim + body, layout)


@st.composite
def shapely(draw: st.DrawFn, name: str, dim: int) -> bytes:
    """A body whose parts have the sizes that it claims, and any content."""
    if name == "parts":  # all of one tensor or of two, in a message of any format
        part = draw(st.sampled_from(payloads.formats()))
        tensors = draw(st.integers(1, 2))
        body = draw(shapely(part.name, dim))
        group = struct.pack("<HBB", tensors, 2, 3 >> 2 - tensors)
        inner = struct.pack("<IBBI", 6 + len(body), 1, part.code, dim)
        return struct.pack("<H", 1) + group + inner + body
    count, width = draw(st.integers(0, dim + 2)), draw(st.sampled_from([8, 4, 2]))
    bucket = draw(st.integers(0, 9) | st.sampled_from(NUMBERS))
    coding, low = draw(st.integers(0, 4)), draw(st.integers(0, 33))
    gaps = 1 + -(-count * low // 8) + count
    indices = [2 * count, 4 * count, -(-dim // 8), gaps, 0][coding]
    shapes = {
        "dense": (b"", 4 * dim),
        "sparse": (struct.pack("<IB", count, coding), indices + 4 * count),
        "values": (struct.pack("<IB", count, coding), indices + 4 * count),
        "levels": (
            struct.pack("<HfIB", 1, 0.5, count, coding),
            indices + -(-count // 8) + 1 + draw(st.sampled_from([0, gaps])),
        ),
        "seeded": (struct.pack("<QI", draw(st.integers(0, 9)), count), 4 * count),
        "sign": (struct.pack("<H", count), 4 * count + -(-dim // 8)),
        "quantised": (
            struct.pack("<BI", width, bucket),
            4 * -(-dim // max(1, bucket)) + -(-dim * width // 8),
        ),
        "half": (bytes([coding]), 2 * dim),
        "natural": (
            struct.pack("<hB", 127 - 9 * low, coding),
            (1 + coding) * -(-dim // 8),
        ),
        "low_rank": (
            struct.pack("<IB", rows := draw(st.integers(0, dim + 1)), coding),
            4 * coding * (rows + dim // max(1, rows)),
        ),
        "semi_discrete": (
            # One term; a body of more than 127 numbers would need longer ones.
            bytes([low, 1, 0, (rows := draw(st.integers(0, dim + 1))) % 128, coding])
            + bytes([(spoken := min(count, 127)), 2]),
            -(-(rows + dim // max(1, rows)) // 8) + -(-spoken // 8),
        ),
        "block": (
            struct.pack("<IIIBBIH", low, coding, count, 1, 3, count, 1),
            4 + -(-count // 8),
        ),
        "rotated": (
            (struct.pack("<QBBIH", low, 1, 3, 256, 1), 4 + 32)
            if coding % 2
            else (struct.pack("<QBBIBI", low, 1, 4, 256, width, 64), 16 + 32 * width)
        ),
    }
    assert name in shapes, f"format {name!r} has no row here"
    head, size = shapes[name]
    mostly_zero = st.binary(min_size=size, max_size=size) | st.just(bytes(size))
    return head + draw(mostly_zero)


@every_format
@given(st.data())
@settings(max_examples=200)
def test_numbers_that_do_not_fit_the_model_are_a_vector_or_an_error(
    form: payloads.Format, data: st.DataObject
) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS[:-1]))
    body = data.draw(shapely(form.name, sum(layout)))
    read(struct.pack("<BBI", 1, form.code, sum(layout)) + body, layout)


@every_format
@given(st.data())
def test_deflated_or_not_a_message_says_the_same(
    form: payloads.Format, data: st.DataObject
) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS[:-1]))
    body = data.draw(shapely(form.name, sum(layout)))
    plain = struct.pack("<BBI", 1, form.code, sum(layout)) + body
    small = deflated_again(plain, data.draw(st.sampled_from([1, 2, 4])))
    one, other = read(plain, layout), read(small, layout)
    if one is None or other is None:
        assert one is other
    else:
        assert one.tobytes() == other.tobytes()


def test_what_blows_up_is_read_at_the_cost_of_the_model() -> None:
    layout = (1_000_000,)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packer.compress(bytes(100_000_000)) + packer.flush()
    for size in (4_000_000, 100_000_000):
        head = struct.pack("<BBIBI", 2, 0, sum(layout), 1, size)
        assert _peak(lambda data=head + bomb: _unpacked(data, layout)) < 9_000_000


@every_message
def test_a_message_that_ends_early_is_an_error(entry: Any) -> None:
    message, layout = golden_bytes(entry), tuple(entry["layout"])
    assert read(message, layout) is not None
    for end in range(len(message)):
        assert read(message[:end], layout) is None


@every_message
def test_a_message_that_goes_on_is_an_error(entry: Any) -> None:
    assert read(golden_bytes(entry) + b"\0", tuple(entry["layout"])) is None


@every_message
def test_a_message_with_a_flipped_bit_is_a_vector_or_an_error(entry: Any) -> None:
    message = golden_bytes(entry)
    for bit in range(8 * len(message)):
        flipped = bytearray(message)
        flipped[bit // 8] ^= 1 << bit % 8
        read(bytes(flipped), tuple(entry["layout"]))


FOUND = {  # by the fuzz loop
    "a rotated scale that is subnormal, and its magnitude": (
        "0109030000000b0ff589e8fb444d01030001000001003a000000" + 32 * "33",
        (3,),
    ),
    "the same with a block of one sign": (
        "0109010000000b0ff589e8fb444d01030001000001002e640100" + 32 * "00",
        (1,),
    ),
}


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
def test_what_was_found_by_fuzzing_is_a_vector(found: tuple[str, Layout]) -> None:
    message, layout = found
    assert read(bytes.fromhex(message), layout) is not None


@pytest.mark.parametrize(
    "message",
    [
        "01030300000002000000003f0000004005",
        "01040300000008020000000000003f00000040fe0080",
    ],
    ids=["sign", "quantised"],
)
def test_a_small_model_needs_little_memory_to_add_to(message: str) -> None:
    layout, out_D = (2, 1), np.zeros(3, np.float32)
    payload = payloads.unpack(bytes.fromhex(message), layout)
    assert _peak(lambda: payloads.add(payload, out_D)) < 32_768


@every_message
def test_a_message_for_another_model_is_an_error(entry: Any) -> None:
    size = sum(entry["layout"])
    for layout in [(size + 1,), (size - 1,), (size, size)]:
        assert read(golden_bytes(entry), layout) is None


@every_format
@pytest.mark.parametrize("count", NUMBERS)
@pytest.mark.parametrize("width", [0, 2, 8])
def test_absurd_counts_cost_no_more_than_the_message(
    form: payloads.Format, count: int, width: int
) -> None:
    layout = (1_000_000,)
    claims = [
        struct.pack("<IB", count, width),
        struct.pack("<BI", width, count),
        struct.pack("<QI", count, count),
        struct.pack("<H", count % 65536),
    ]
    for claim in claims:
        message = struct.pack("<BBI", 1, form.code, sum(layout)) + claim + bytes(64)
        assert _peak(lambda data=message: _unpacked(data, layout)) < 16_384


@named([*ALONE, RandomK(ratio=0.5), TopK(ratio=0.3), DeadZone(ratio=0.1)])
def test_reading_a_message_costs_a_few_models_of_memory(
    config: CompressorConfig,
) -> None:
    layout = (30_000, 20_000)
    update = Given(layout, vector("gaussian", sum(layout)), np.zeros(0, np.float32))
    message = payloads.pack(encode(config, update, Key.root(0))[0])
    size = len(message) + 4 * sum(layout)
    assert _peak(lambda: payloads.unpack(message, layout)) < 2 * size
    assert _peak(lambda: payloads.decode(payloads.unpack(message, layout))) < 12 * size


def _unpacked(data: bytes, layout: Layout) -> None:
    with contextlib.suppress(PayloadError):
        payloads.unpack(data, layout)


def _peak(call: Any) -> int:
    """The most bytes that a call held at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
