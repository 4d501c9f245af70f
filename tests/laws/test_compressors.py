"""The laws that every compressor keeps."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from fedcore import payloads
from fedcore.compressors import (
    CompressorConfig,
    Context,
    ErrorFeedback,
    MemoryConfig,
)
from fedcore.errors import PayloadError
from fedcore.protocol import Verdict
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.laws.compressors import (
    CONTRACTIONS,
    EVERY,
    REMEMBERED,
    REST,
    TRIED,
    UNBIASED,
    encode,
    in_context,
    innermost,
    memory,
)
from tests.laws.registered import name_of, named
from tests.laws.trees import reloaded
from tests.laws.vectors import SHAPES, Given, keys, layouts, updates, vector

DIM, DRAWS = 24, 2000
SPARSIFIERS = ("top_k", "gaussian_k", "random_k", "gaia")
DENSE = ("gaussian", "laplace", "student_t3", "constant")
TINY: list[payloads.Layout] = [(1,), (0, 1), (1, 0, 0), (0,)]
SUMMED = ("sign_l1", "sign_l2", "rotation", "low_rank", "cyclic")
T = TypeVar("T")
shapes = pytest.mark.parametrize("shape", SHAPES)


@named(TRIED)
@given(updates(), keys)
def test_inputs_are_left_untouched(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    before = update.delta_D.tobytes(), update.memory_D.tobytes()
    payload, left = encode(config, update, key)
    payloads.pack(payload)
    payloads.add(payload, np.zeros_like(update.delta_D), 0.5)
    assert (update.delta_D.tobytes(), update.memory_D.tobytes()) == before
    assert left is None or not np.shares_memory(left, update.memory_D)


@named(TRIED)
@given(updates(), keys)
def test_the_same_key_gives_the_same_message(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    first, second = (encode(config, update, key)[0] for _ in range(2))
    assert payloads.pack(first) == payloads.pack(second)


@named(TRIED)
@given(updates(), keys)
def test_a_message_survives_the_wire(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    payload, _ = encode(config, update, key)
    packed = payloads.pack(payload)
    arrived = payloads.unpack(packed, update.layout)
    assert payload.nbytes == len(packed)
    assert payloads.pack(arrived) == packed
    assert payloads.decode(arrived).tobytes() == payloads.decode(payload).tobytes()


@named(TRIED)
@given(updates(), keys)
def test_what_an_encoder_makes_is_declared(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    packed = payloads.pack(encode(config, update, key)[0])
    declared = config.list_formats(update.layout)
    arrived = payloads.unpack(packed, update.layout, declared)
    assert payloads.pack(arrived) == packed
    for name in {arrived.format} & set(declared):  # and each format says what it costs
        less = {**declared, name: -1}
        with pytest.raises(PayloadError, match=r"expected at most -1"):
            payloads.unpack(packed, update.layout, less)


@named(TRIED)
@given(updates(), keys, st.sampled_from([1.0, 0.3, -2.5]))
def test_a_prepared_message_adds_up_to_the_same_bits(
    config: CompressorConfig, update: Given, key: Key, scale: float
) -> None:
    payload, _ = encode(config, update, key)
    arrived = payloads.unpack(payloads.pack(payload), update.layout)
    prepared = payloads.prepare(arrived)
    first_D, second_D = -update.memory_D, -update.memory_D  # with zeros of both signs
    payloads.add(arrived, first_D, scale)
    payloads.add(prepared, second_D, scale)
    assert first_D.tobytes() == second_D.tobytes()
    assert payloads.decode(prepared).tobytes() == payloads.decode(arrived).tobytes()


@named(TRIED)
@given(updates(), keys)
def test_float32_comes_in_and_float32_comes_out(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    payload, left = encode(config, update, key)
    decoded = payloads.decode(payload)
    assert decoded.dtype == np.float32
    assert decoded.shape == update.delta_D.shape
    assert left is None or (left.dtype, left.shape) == (decoded.dtype, decoded.shape)


@named(TRIED)
@given(updates(), keys, st.sampled_from([1.0, -1.0, 0.5, 1 / 3, 7e-3, 300.0]))
def test_adding_a_message_is_adding_what_it_stands_for(
    config: CompressorConfig, update: Given, key: Key, scale: float
) -> None:
    payload, _ = encode(config, update, key)
    out_D = update.memory_D + np.float32(0)  # no negative zeros
    expected_D = out_D + np.float32(scale) * payloads.decode(payload)
    payloads.add(payload, out_D, scale)
    assert out_D.tobytes() == expected_D.tobytes()


@named(TRIED)
@given(updates(), keys)
def test_the_support_covers_all_that_a_message_changes(
    config: CompressorConfig, update: Given, key: Key
) -> None:
    payload, _ = encode(config, update, key)
    support = payloads.support(payload)
    if support is not None:
        assert bool((np.diff(support) > 0).all())
        assert set(np.flatnonzero(payloads.decode(payload))) <= set(support)


@named(TRIED)
def test_a_compressor_is_random_for_all_keys_or_for_none(
    config: CompressorConfig,
) -> None:
    assert _messages(config) in (1, 8)


def _messages(config: CompressorConfig) -> int:
    """How many messages eight keys make of one update."""
    update = Given((50, 150), vector("gaussian", 200), vector("laplace", 200, 1))
    messages = {
        payloads.pack(encode(config, update, Key.root(seed))[0]) for seed in range(8)
    }
    return len(messages)


# Those that take turns come closer over a cycle: tests/fedcore/compressors/test_cyclic.
AT_ONCE = [config for config in CONTRACTIONS if innermost(config).kind != "cyclic"]


@named(AT_ONCE)
@shapes
def test_a_contraction_comes_closer_in_expectation(
    config: CompressorConfig, shape: str
) -> None:
    x_D = vector(shape, DIM)
    errors = _squared(_draws(config, x_D) - x_D)
    if shape == "zero":
        assert not errors.any()
    else:
        assert errors.mean() < _squared(x_D)


@named(UNBIASED)
@shapes
def test_an_unbiased_compressor_is_right_on_average(
    config: CompressorConfig, shape: str
) -> None:
    x_D = vector(shape, DIM)
    drawn_ND = _draws(config, x_D).astype(np.float64)
    deviation_D = drawn_ND.std(axis=0) / np.sqrt(DRAWS)
    rare = 6 * np.abs(drawn_ND).max() / DRAWS  # what so few draws may never show
    off_D = np.abs(drawn_ND.mean(axis=0) - x_D)
    assert bool((off_D <= 5 * deviation_D + rare).all())


@named([each for each in REMEMBERED if each in TRIED])
@given(updates(), keys)
def test_a_memory_holds_what_the_message_left_out(
    config: ErrorFeedback, update: Given, key: Key
) -> None:
    payload, left = encode(config, update, key)
    corrected_D = update.memory_D + update.delta_D
    assert left.tobytes() == (corrected_D - payloads.decode(payload)).tobytes()


@named([each for each in REMEMBERED if innermost(each).kind in SPARSIFIERS])
@given(updates(), keys)
def test_message_and_memory_of_a_sparsifier_sum_to_the_update_exactly(
    config: ErrorFeedback, update: Given, key: Key
) -> None:
    payload, left = encode(config, update, key)
    assert (payloads.decode(payload) + left == update.memory_D + update.delta_D).all()


@named([each for each in REMEMBERED if each.inner in AT_ONCE])
def test_a_memory_stays_bounded_on_a_steady_stream(config: ErrorFeedback) -> None:
    compressor = in_context(config, (9, 15))
    memory_D = compressor.init(DIM)
    for step in range(400):
        delta_D = vector("gaussian", DIM, step) / np.float32(np.sqrt(DIM))
        _, memory_D = compressor.encode(delta_D, memory_D, Key.root(step))
        # √(1-δ)/(1-√(1-δ)) times the norm of an update, with δ at least 1/d.
        assert _squared(memory_D) < (2 * DIM) ** 2


@named(TRIED)
@given(layouts.filter(sum), st.integers(1, 4), st.integers(0, 2**16))
def test_a_stack_is_its_rows_one_by_one(
    config: CompressorConfig, layout: payloads.Layout, clients: int, seed: int
) -> None:
    shape = SHAPES[seed % len(SHAPES)]
    delta_ND = vector(shape, clients * sum(layout), seed).reshape(clients, -1)
    memory_ND = vector("laplace", delta_ND.size, seed).reshape(delta_ND.shape)
    row_keys = [Key.root(seed).fold_in(row) for row in range(clients)]
    compressor = in_context(config, layout)
    stack, left_ND = compressor.encode(delta_ND, memory(config, memory_ND), row_keys)
    decoded_ND = payloads.decode(stack)
    for row, message in enumerate(payloads.rows(stack)):
        alone, left_D = compressor.encode(
            delta_ND[row], memory(config, memory_ND[row]), row_keys[row]
        )
        assert payloads.pack(message) == payloads.pack(alone)
        assert decoded_ND[row].tobytes() == payloads.decode(alone).tobytes()
        assert left_D is None or left_ND[row].tobytes() == left_D.tobytes()


@named(TRIED)
@pytest.mark.parametrize("shape", DENSE)
def test_torch_tensors_give_what_numpy_gives(
    config: CompressorConfig, shape: str
) -> None:
    torch = pytest.importorskip("torch")
    layout, key = (7, 0, 1, 16), Key.root(5)
    compressor = in_context(config, layout)
    delta_D = vector(shape, DIM)
    # Equal magnitudes may be taken in any order: a memory tells them apart.
    memory_D = vector("gaussian", DIM, 1)
    if not isinstance(config, MemoryConfig):
        delta_D = delta_D + memory_D
    ours, left_D = compressor.encode(delta_D, memory(config, memory_D), key)
    theirs, left = compressor.encode(
        torch.from_numpy(delta_D), memory(config, torch.from_numpy(memory_D)), key
    )
    decoded = payloads.decode(theirs)
    assert isinstance(decoded, torch.Tensor)
    assert decoded.dtype == torch.float32
    # A mean over a tensor is summed in another order; all else is equal bit by bit.
    off = 1e-6 if innermost(config).kind in SUMMED else 0.0
    expected = payloads.decode(ours)
    np.testing.assert_allclose(decoded.numpy(), expected, rtol=off, atol=off)
    # Deflated, other last bits of a scale may take a byte more or less.
    plain, also_plain = (replace(each, deflates=False) for each in (ours, theirs))
    assert also_plain.nbytes == plain.nbytes
    if left_D is not None:
        np.testing.assert_allclose(left.numpy(), left_D, rtol=off, atol=off)


@named(TRIED)
@pytest.mark.parametrize("layout", TINY)
def test_models_of_one_value_or_none_can_travel(
    config: CompressorConfig, layout: payloads.Layout
) -> None:
    update = Given(layout, np.ones(sum(layout), np.float32), np.zeros(sum(layout), "f"))
    payload, _ = encode(config, update, Key.root(0))
    arrived = payloads.decode(payloads.unpack(payloads.pack(payload), layout))
    assert arrived.tolist() == [1.0] * sum(layout)


def _draws(config: CompressorConfig, x_D: Vector) -> Vector:
    """What many keys make of a vector, one a row; one key, if all make the same."""
    count = 1 if _messages(config) == 1 else DRAWS
    draws = [Key.root(7).fold_in(draw) for draw in range(count)]
    stack_ND = np.tile(x_D, (count, 1))
    payload, _ = in_context(config, (9, 15)).encode(stack_ND, None, draws)
    decoded_ND: Vector = payloads.decode(payload)
    return decoded_ND


def _squared(x: Vector) -> Vector:
    squares: Vector = np.square(x, dtype=np.float64).sum(axis=-1)
    return squares


@named([config for config in EVERY if config.build((30, 12, 7)).adapt])
def test_the_last_message_may_be_of_any_codec(config: CompressorConfig) -> None:
    """The codec of a run that goes on with other settings is another one."""
    layout = (30, 12, 7)
    delta_D, public_D = vector("laplace", 49, 1), vector("gaussian", 49, 2)
    nothing_D = np.zeros(49, np.float32)
    for other in EVERY:
        was, now = other.build(layout), config.build(layout)
        before, _ = was.encode(public_D, memory(other, nothing_D), Key.root(3))
        for recall in (was.recall, now.recall):
            recalled = None if recall is None else recall(before)
            known = Context(4, public_D, recalled)
            message, _ = now.at(partial(_only, known)).encode(
                delta_D, memory(config, nothing_D), Key.root(0)
            )
            arrived = payloads.unpack(payloads.pack(message), layout)
            assert np.isfinite(payloads.decode(arrived)).all()


@named([config for config in EVERY if config.build((30, 12, 7)).recall])
def test_what_is_recalled_of_a_message_can_be_saved(config: CompressorConfig) -> None:
    layout = (30, 12, 7)
    compressor, delta_D = config.build(layout), vector("laplace", 49, 1)
    no_memory_D = memory(config, np.zeros(49, np.float32))
    before, _ = compressor.encode(delta_D, no_memory_D, Key.root(3))
    assert compressor.recall is not None
    state = compressor.recall(before)
    packed = []
    for recalled in (state, reloaded(state, None)):
        known = Context(4, delta_D, recalled)
        message, _ = compressor.at(partial(_only, known)).encode(
            delta_D, no_memory_D, Key.root(0)
        )
        packed.append(payloads.pack(message))
    assert packed[0] == packed[1]


@named(TRIED)
def test_a_shorter_message_is_shorter_and_of_the_same_method(
    config: CompressorConfig,
) -> None:
    layout, delta_D = (1500, 500), vector("laplace", 2000, 1)
    context = Context(4, vector("gaussian", 2000, 2))

    def nbytes(share: float) -> int:
        shorter = config.shorter(share)
        assert shorter is not None
        assert type(shorter) is type(config)
        assert (shorter.holds, shorter.bias) == (config.holds, config.bias)
        now = shorter.build(layout).at(partial(_only, context))
        no_memory_D = memory(shorter, np.zeros_like(delta_D))
        return now.encode(delta_D, no_memory_D, Key.root(0))[0].nbytes

    if config.shorter(1.0) is not None:
        whole, quarter, least = map(nbytes, (1.0, 0.25, 1e-6))
        assert least <= quarter < whole or least == whole  # one term of a vector, say


@named(TRIED)
def test_what_a_memory_holds_says_whether_there_is_one(
    config: CompressorConfig,
) -> None:
    has_memory = config.build((3,)).init(3) is not None
    assert (config.holds != "nothing") == has_memory
    assert not config.brings_back(Verdict.ACCEPTED)
    assert all(config.brings_back(v) for v in Verdict if v.returns_mass)


NOTHING = st.just(())
DRAWN = st.tuples(updates(), keys)
WITH_SCALES = st.tuples(updates(), keys, st.sampled_from([1.0, -1.0, 1 / 3, 300.0]))
ROWS = st.tuples(layouts.filter(sum), st.integers(1, 4), st.integers(0, 2**16))
OF_ALL: list[tuple[Callable[..., None], st.SearchStrategy[Any]]] = [
    (test_inputs_are_left_untouched, DRAWN),
    (test_the_same_key_gives_the_same_message, DRAWN),
    (test_a_message_survives_the_wire, DRAWN),
    (test_what_an_encoder_makes_is_declared, DRAWN),
    (test_a_prepared_message_adds_up_to_the_same_bits, WITH_SCALES),
    (test_float32_comes_in_and_float32_comes_out, DRAWN),
    (test_adding_a_message_is_adding_what_it_stands_for, WITH_SCALES),
    (test_the_support_covers_all_that_a_message_changes, DRAWN),
    (test_a_compressor_is_random_for_all_keys_or_for_none, NOTHING),
    (test_a_memory_holds_what_the_message_left_out, DRAWN),
    (test_a_stack_is_its_rows_one_by_one, ROWS),
    (test_torch_tensors_give_what_numpy_gives, st.tuples(st.sampled_from(DENSE))),
    (test_models_of_one_value_or_none_can_travel, st.tuples(st.sampled_from(TINY))),
    (test_a_shorter_message_is_shorter_and_of_the_same_method, NOTHING),
    (test_what_a_memory_holds_says_whether_there_is_one, NOTHING),
]


@pytest.mark.parametrize(
    ("law", "drawn"),
    OF_ALL,
    ids=[law.__name__.removeprefix("test_") for law, _ in OF_ALL],
)
@given(st.data())
def test_memories_around_any_codec_keep_the_law(
    law: Any, drawn: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """The same laws for those codecs that a memory cannot tell from one tried above."""
    alone = law.hypothesis.inner_test if hasattr(law, "hypothesis") else law
    values = data.draw(drawn)
    for config in REST:
        note(name_of(config))
        alone(config, *values)


def _only(known: T) -> T:
    return known
