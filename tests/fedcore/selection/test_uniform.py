"""A uniform sample without replacement."""

from collections import Counter

import pytest

from fedcore.rng import Key
from fedcore.selection import UniformSelection

NAMES = [f"client-{i}" for i in range(10)]


def test_every_client_is_as_likely_as_any_other() -> None:
    choose, rounds, count = UniformSelection().build().choose, 2000, 3
    chosen = Counter[str]()
    for number in range(rounds):
        chosen.update(choose(NAMES, count, Key.root(0).fold_in("round", number)))
    expected = rounds * count / len(NAMES)
    chi_square = sum((chosen[name] - expected) ** 2 / expected for name in NAMES)
    assert chi_square < 27.9  # nine degrees of freedom, p = 0.001


def test_every_pair_is_as_likely_as_any_other() -> None:
    choose = UniformSelection().build().choose
    pairs = Counter(
        frozenset(choose(NAMES[:5], 2, Key.root(number))) for number in range(3000)
    )
    assert len(pairs) == 10
    assert sum((n - 300) ** 2 / 300 for n in pairs.values()) < 27.9


def test_the_chosen_come_in_the_order_of_their_arrival() -> None:
    chosen = UniformSelection().build().choose(NAMES, 4, Key.root(1))
    assert chosen == sorted(chosen, key=NAMES.index)


@pytest.mark.parametrize("count", [10, 11, 1000])
def test_all_are_taken_if_there_is_room(count: int) -> None:
    assert UniformSelection().build().choose(NAMES, count, Key.root(0)) == NAMES


def test_another_key_gives_another_sample() -> None:
    choose = UniformSelection().build().choose
    assert len({tuple(choose(NAMES, 5, Key.root(seed))) for seed in range(20)}) > 15
