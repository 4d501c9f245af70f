"""Compiled kernels and their twins in NumPy give the same bytes."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore import kernels, payloads
from fedcore.compressors import CompressorConfig
from fedcore.errors import PayloadError
from fedcore.kernels.buckets import Measure
from fedcore.payloads.base import Reader
from fedcore.payloads.rice import unpack_rice
from fedcore.rng import Key, bits
from fedcore.typing import Vector
from tests.fedcore.kernels.both import SIZES, needed, raw, same
from tests.fedcore.kernels.vectors import vectors
from tests.laws.compressors import EVERY, encode
from tests.laws.registered import named
from tests.laws.vectors import SHAPES, Given, keys, updates, vector

pytestmark = needed
words = st.integers(0, 2**64 - 1).map(lambda word: np.array(word, np.uint64))


@named(EVERY)
@given(updates(), keys)
def test_every_codec_sends_and_reads_equal_bytes(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    def works() -> Any:
        payload, left = encode(config, update, key)
        packed = payloads.pack(payload)
        arrived = payloads.unpack(packed, update.layout)
        out_D = update.memory_D.copy()
        payloads.add(arrived, out_D, 0.3)
        return packed, left, payloads.decode(arrived), out_D

    same(works)


@named(EVERY)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_codec_does_so_for_vectors_of_many_blocks(
    config: CompressorConfig, shape: str
) -> None:
    layout = (70_001, 5, 0, 3_000)
    update = Given(layout, vector(shape, sum(layout)), vector("laplace", sum(layout)))

    def works() -> Any:
        payload, _ = encode(config, update, Key.root(3))
        return payloads.pack(payload), payloads.decode(payload)

    same(works)


@given(vectors(), st.sampled_from([1, 2, 3, 5]))
def test_sums(x_D: Vector, rows: int) -> None:
    x = x_D[: len(x_D) // rows * rows].reshape(rows, -1)
    for sums in (kernels.absolute_sums, kernels.square_sums, kernels.plain_sums):
        assert same(partial(sums, x)).dtype == np.float64


@pytest.mark.parametrize("size", [*SIZES, 1 << 14, (1 << 14) + 1, 100_000])
def test_sums_are_close_to_those_of_numpy(size: int) -> None:
    x_D = vector("laplace", size)
    for found, expected in (
        (kernels.absolute_sums(x_D), np.abs(x_D).sum(dtype=np.float64)),
        (kernels.square_sums(x_D), np.square(x_D, dtype=np.float64).sum()),
        (kernels.plain_sums(x_D), x_D.sum(dtype=np.float64)),
    ):
        assert float(found) == pytest.approx(float(expected), rel=1e-12, abs=1e-9)


@given(st.integers(0, 9), st.sampled_from([0, *SIZES, 10_001]), st.integers(0, 2**16))
def test_sums_of_rows(count: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows_ND, more_ND = rng.standard_normal((2, count, dim)).astype(np.float32)
    rows = [
        ((rows_ND, more_ND)[n % 3 == 2], n % max(1, count - 1)) for n in range(count)
    ]
    rows_ND *= np.float32(rng.choice([1e-44, 1e-30, 1.0, 1e30]))
    shares = rng.choice([0.0, 1.0, -0.5, 1e-40, 0.3, 17.0], count).tolist()
    start_D = rng.standard_normal(dim).astype(np.float32)

    def together() -> Vector:
        out_D = start_D.copy()
        kernels.add_rows(rows, shares, out_D)
        return out_D

    alone_D = start_D.copy()
    for (values_ND, place), share in zip(rows, shares, strict=True):
        payloads.add(payloads.dense_payload(values_ND[place]), alone_D, share)
    assert raw(same(together)) == raw(alone_D)


@given(vectors(), words)
def test_signs(x_D: Vector, seed: Any) -> None:
    marks = same(lambda: kernels.positive(x_D, seed))
    coins = bits(seed, 0, len(x_D)) >> np.uint64(63) != 0
    assert np.array_equal(marks, np.where(x_D == 0, coins, x_D > 0))


@given(vectors(), st.lists(st.integers(0, 80), max_size=5), st.data())
def test_vectors_of_plus_and_minus_scales(
    out_D: Vector, sizes: list[int], data: st.DataObject
) -> None:
    ends = np.minimum(np.cumsum([*sizes, len(out_D)]), len(out_D))
    sizes_T = np.diff(ends, prepend=0)
    plus_D = np.resize(np.array([True, False, False, True, True]), len(out_D))
    scales = st.sampled_from([0.0, 1.5, 1e-42, 3e38, np.inf, np.nan])
    drawn = data.draw(st.lists(scales, min_size=len(ends), max_size=len(ends)))
    scales_T = np.array(drawn, np.float32)

    def works() -> Any:
        put_D, added_D = np.empty_like(out_D), out_D.copy()
        kernels.put_signs(plus_D, scales_T, sizes_T, put_D)
        with np.errstate(invalid="ignore", over="ignore"):
            kernels.add_signs(plus_D, scales_T, sizes_T, added_D)
        return put_D, np.where(np.isnan(added_D), 0, added_D), np.isnan(added_D)

    same(works)


@given(
    vectors(),
    st.sampled_from([1, 2, 5, 64, 100, 512, 1 << 20]),
    st.sampled_from([127, 7, 1]),
    st.sampled_from(["largest", "norm"]),
    st.none() | words,
)
def test_buckets(
    x_D: Vector, bucket: int, top: int, measure: Measure, seed: Any
) -> None:
    levels, _ = same(lambda: kernels.quantise(x_D, bucket, top, measure, seed))
    assert len(levels) == 0 or int(np.abs(levels.astype(int)).max()) <= top


@given(
    st.integers(1, 4), st.integers(1, 200), st.booleans(), st.integers(0, 2**16), words
)
def test_buckets_of_a_stack(
    rows: int, dim: int, random: bool, of: int, word: Any
) -> None:
    x_ND = vector("laplace", rows * dim, of).reshape(rows, dim)
    seeds = bits(word, 0, rows) if random else None
    levels, steps = same(lambda: kernels.quantise(x_ND, 64, 7, "largest", seeds))
    for row in range(rows):
        own = None if seeds is None else seeds[row]
        alone = kernels.quantise(x_ND[row], 64, 7, "largest", own)
        assert raw((levels[row], steps[row])) == raw(alone)


@given(vectors(finite=True), st.sampled_from([1, 3, 64, 1000]), st.data())
def test_vectors_of_levels(out_D: Vector, bucket: int, data: st.DataObject) -> None:
    levels_D = np.resize(np.arange(-127, 128, dtype=np.int8), len(out_D))
    allowed = st.sampled_from([0.0, 1.0, 0.1, 1e-42, 1e30])
    count = -(-len(out_D) // bucket)
    drawn = data.draw(st.lists(allowed, min_size=count, max_size=count))
    steps = np.array(drawn, np.float32)

    def works() -> Any:
        put_D, added_D = np.empty_like(out_D), out_D.copy()
        kernels.put_levels(levels_D, bucket, steps, put_D)
        for scale in (1.0, 0.3, -2.0):
            with np.errstate(over="ignore"):
                kernels.add_levels(levels_D, bucket, steps, np.float32(scale), added_D)
        return put_D, added_D

    same(works)


@given(vectors(), st.integers(0, 400), st.data())
def test_what_is_above_a_threshold(x_D: Vector, most: int, data: st.DataObject) -> None:
    magnitudes_D = x_D.view(np.int32) & 0x7FFFFFFF
    limits = st.sampled_from([-1, 0, *magnitudes_D.tolist()])
    threshold = data.draw(limits)
    if not len(x_D):
        return
    places_K = same(lambda: kernels.above(x_D, threshold, most))
    expected_K = np.flatnonzero(magnitudes_D > threshold)
    if places_K is None:
        assert len(expected_K) > most
    else:
        assert np.array_equal(places_K, expected_K)


@given(vectors(finite=True), st.integers(1, 400))
def test_the_largest(x_D: Vector, k: int) -> None:
    some = min(k, len(x_D))
    places_K = same(lambda: kernels.largest_indices(x_D, some))
    order_D = np.argsort(-np.abs(x_D), kind="stable")
    assert np.array_equal(places_K, np.sort(order_D[:some]))


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(2, 3000), st.data())
def test_the_largest_of_each_row(
    seed: int, rows: int, dim: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    x_ND = rng.normal(size=(rows, dim)).astype(np.float32)
    x_ND[rng.random((rows, dim)) < 0.3] = 0  # as where units are dead
    x_ND[rng.random((rows, dim)) < 0.3] = -1
    k = data.draw(st.integers(1, dim))
    places_NK = same(lambda: kernels.largest_indices(x_ND, k))
    order_ND = np.argsort(-np.abs(x_ND), axis=1, kind="stable")
    assert np.array_equal(places_NK, np.sort(order_ND[:, :k], axis=1))


def test_the_largest_with_numbers_that_are_none() -> None:
    x_D = np.array([1, np.nan, -np.inf, 3, -np.nan, 0, 2], np.float32)
    for k in range(1, 8):
        same(partial(kernels.largest_indices, x_D, k))


@given(st.lists(st.integers(0, 5000), max_size=100), st.integers(0, 31))
def test_rice_codes(numbers: list[int], width: int) -> None:
    numbers_K = np.array(numbers, np.int64)
    assert same(lambda: kernels.sum_shifted(numbers_K, width)) == sum(
        number >> width for number in numbers
    )
    same(lambda: b"".join(kernels.rice(numbers_K, width)))


def read(message: bytes, count: int, width: int, most: int) -> Any:
    """The numbers and how many bytes are left, or what is wrong with the message."""
    reader = Reader(message)
    try:
        return unpack_rice(reader, count, width, most), reader.left
    except PayloadError as error:
        return str(error)


@given(
    st.lists(st.integers(0, 5000), max_size=100),
    st.integers(0, 31),
    st.binary(max_size=20),
)
def test_rice_codes_are_read(numbers: list[int], width: int, more: bytes) -> None:
    numbers_K = np.array(numbers, np.int64)
    message = b"".join(kernels.rice(numbers_K, width)) + more
    found, left = same(lambda: read(message, len(numbers), width, 5000))
    assert found.tolist() == numbers
    assert left == len(more)


@given(
    st.binary(max_size=40),
    st.integers(0, 400),
    st.integers(0, 33),
    st.integers(0, 2**34),
)
def test_junk_in_the_place_of_rice_codes(
    message: bytes, count: int, width: int, most: int
) -> None:
    same(lambda: read(message, count, width, most))


@given(st.lists(st.integers(0, 5000), min_size=1), st.integers(0, 12), st.data())
def test_rice_codes_that_are_cut_or_too_large(
    numbers: list[int], width: int, data: st.DataObject
) -> None:
    message = b"".join(kernels.rice(np.array(numbers, np.int64), width))
    cut = data.draw(st.integers(0, len(message)))
    most = data.draw(st.integers(0, 5000))
    same(lambda: read(message[:cut], len(numbers), width, most))
