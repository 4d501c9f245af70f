"""Keys, SplitMix64, and the supports that travel as a seed."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore import rng
from fedcore.rng import Key, bits, noise, seeds, subset, uniform
from tests.golden.load import golden

GOLDEN = golden("rng")
MASK = (1 << 64) - 1
words = st.integers(0, MASK)
names = st.lists(st.text(max_size=4) | st.integers(-9, 9), max_size=4)


def splitmix64(state: int) -> Iterator[int]:
    """The algorithm as published, on Python's whole numbers."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def word(seed: int) -> Any:
    return np.array(seed, np.uint64)


@pytest.mark.parametrize(("seed", "outputs"), GOLDEN["splitmix64"].items())
def test_bits_are_the_known_outputs_of_splitmix64(
    seed: str, outputs: list[int]
) -> None:
    assert bits(word(int(seed)), 0, len(outputs)).tolist() == outputs


@given(words)
def test_bits_are_splitmix64_for_every_seed(seed: int) -> None:
    assert bits(word(seed), 0, 5).tolist() == list(islice(splitmix64(seed), 5))


@given(words, st.integers(0, 50), st.integers(0, 50))
def test_a_stream_can_be_read_from_any_place(seed: int, start: int, count: int) -> None:
    whole = bits(word(seed), 0, start + count)
    assert bits(word(seed), start, count).tolist() == whole[start:].tolist()


@given(st.lists(st.tuples(words, st.integers(0, 2**62)), max_size=5))
def test_single_words_are_those_of_the_stream(some: list[tuple[int, int]]) -> None:
    seed_K = np.array([seed for seed, _ in some], np.uint64)
    place_K = np.array([place for _, place in some], np.int64)
    one_by_one = [rng.word(seed, place) for seed, place in some]
    assert rng.words(seed_K, place_K).tolist() == one_by_one
    assert one_by_one == [int(bits(word(s), place, 1)[0]) for s, place in some]


@given(st.lists(words, min_size=1, max_size=4))
def test_a_stack_of_seeds_gives_a_row_each(some: list[int]) -> None:
    stacked = bits(np.array(some, np.uint64), 3, 4)
    assert stacked.tolist() == [bits(word(seed), 3, 4).tolist() for seed in some]


@pytest.mark.parametrize(("seed", "fractions"), GOLDEN["fractions"].items())
def test_uniform_numbers_are_the_high_bits(seed: str, fractions: list[float]) -> None:
    drawn = uniform(word(int(seed)), len(fractions))
    assert drawn.dtype == np.float32
    assert drawn.tolist() == pytest.approx(fractions, abs=1e-7)


def test_uniform_numbers_may_be_drawn_in_parts() -> None:
    whole = uniform(seeds([Key.root(0), Key.root(1)]), 40_000)
    parts = [
        uniform(seeds([Key.root(0), Key.root(1)]), 20_000, start)
        for start in (0, 20_000)
    ]
    assert np.concatenate(parts, axis=-1).tobytes() == whole.tobytes()


def test_uniform_numbers_are_uniform_and_below_one() -> None:
    drawn = uniform(word(0), 100_000)
    assert 0 <= drawn.min() < drawn.max() < 1
    shares = np.histogram(drawn, 10, (0, 1))[0]
    assert ((shares - 10_000) ** 2 / 10_000).sum() < 27.9


@pytest.mark.parametrize("entry", GOLDEN["subset"], ids=str)
def test_supports_are_those_that_peers_draw(entry: Any) -> None:
    drawn = subset(entry["seed"], entry["size"], entry["count"])
    assert drawn.tolist() == entry["indices"]
    assert drawn.dtype == np.int64


@given(words, st.integers(0, 200), st.data())
def test_a_subset_ascends_without_repeats(
    seed: int, size: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, size))
    drawn = subset(seed, size, count).tolist()
    assert drawn == sorted(set(drawn))
    assert len(drawn) == count
    assert set(drawn) <= set(range(size))


def test_every_place_is_as_likely_as_any_other() -> None:
    for count in (3, 7):  # drawn as they are, and as a complement
        hits = np.zeros(10)
        for seed in range(3000):
            hits[subset(Key.root(seed).seed(), 10, count)] += 1
        expected = 3000 * count / 10
        assert ((hits - expected) ** 2 / expected).sum() < 27.9


@pytest.mark.parametrize("entry", GOLDEN["keys"], ids=str)
def test_keys_are_those_of_earlier_runs(entry: Any) -> None:
    key = Key.root(entry["seed"]).fold_in(*entry["names"])
    root = Key.root(entry["seed"])
    assert (key if entry["names"] else root).digest.hex() == entry["digest"]


@given(names, names)
def test_other_names_give_another_key(ours: list[Any], theirs: list[Any]) -> None:
    root = Key.root(0)
    same = repr(ours) == repr(theirs)
    assert (root.fold_in(*ours) == root.fold_in(*theirs)) is same


def test_a_number_and_its_digits_are_two_names() -> None:
    root = Key.root(0)
    assert root.fold_in(1) != root.fold_in("1")
    assert root.fold_in("a", "b") != root.fold_in("ab")
    assert root.fold_in("a").fold_in("b") != root.fold_in("a", "b")
    assert Key.root(0) != Key.root(1)


def test_a_key_draws_the_same_numbers_again_and_leaves_the_global_state_alone() -> None:
    before = _global_state()
    key = Key.root(0).fold_in("client", "ann")
    drawn = [key.generator().integers(1 << 40, size=3).tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert _global_state() == before


def test_seeds_fit_into_63_bits_and_stack() -> None:
    some = [Key.root(seed) for seed in range(100)]
    assert seeds(some).tolist() == [key.seed() for key in some]
    assert seeds(some[0]).shape == ()
    assert max(key.seed() for key in some) < 1 << 63


def _global_state() -> str:
    return str(np.random.get_state())  # noqa: NPY002 -- to see that it is untouched


@given(words, st.integers(0, 2**33))
def test_noise_is_a_hash_of_the_place(seed: int, place: int) -> None:
    first = next(splitmix64(seed))
    mask = (1 << 32) - 1
    z = (place * 0x9E3779B9 + (first & mask)) & mask
    z = (((z ^ (z >> 16)) + (first >> 32)) * 0x21F0AAAD) & mask
    z = ((z ^ (z >> 15)) * 0xD35A2D97) & mask
    assert noise(word(seed), 1, place).tolist() == [z >> 8]


def test_noise_may_be_drawn_in_parts_and_for_many_seeds() -> None:
    many = np.array([1, 2, 3], np.uint64)
    whole = noise(many, 40_000)
    assert whole.shape == (3, 40_000)
    assert np.array_equal(noise(many, 30_000, 10_000), whole[:, 10_000:])
    assert np.array_equal(noise(many[1], 40_000), whole[1])


def test_noise_is_even_and_neither_places_nor_seeds_know_of_each_other() -> None:
    count = 1 << 18
    first_D, *others_D = (
        noise(seeds(Key.root(seed)), count) * 2.0**-24 - 0.5 for seed in range(6)
    )
    counts = np.bincount(((first_D + 0.5) * 1024).astype(int), minlength=1024)
    even = ((counts - count / 1024) ** 2).sum() / (count / 1024)
    assert abs(even - 1023) < 5 * (2 * 1023) ** 0.5
    assert first_D.min() + 0.5 >= 0
    assert first_D.max() < 0.5
    deviation = count**-0.5 / 12
    lagged = [(first_D[lag:], first_D[:-lag]) for lag in (1, 2, 8, 64, 512)]
    for one, other in [*lagged, *((first_D, other_D) for other_D in others_D)]:
        assert abs(float(np.mean(one * other))) < 5 * deviation
    assert abs(float(first_D.mean())) < 5 * (12 * count) ** -0.5


def test_the_words_of_a_key_are_those_of_its_stream() -> None:
    key = Key.root(5).fold_in("words")
    assert list(islice(key.words(), 20)) == bits(seeds(key), 0, 20).tolist()
