"""A uniform sample without replacement."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from fedcore.rng import Key
from fedcore.selection import UniformSelection

NAMES = [f"client-{i}" for i in range(10)]


def choose(names: Sequence[str], count: int, key: Key) -> list[str]:
    order = UniformSelection().build().order(None, count)
    return list(islice(order(names, key), count))


def test_every_client_is_as_likely_as_any_other() -> None:
    rounds, count = 2000, 3
    chosen = Counter[str]()
    for number in range(rounds):
        chosen.update(choose(NAMES, count, Key.root(0).fold_in("round", number)))
    expected = rounds * count / len(NAMES)
    chi_square = sum((chosen[name] - expected) ** 2 / expected for name in NAMES)
    assert chi_square < 27.9  # nine degrees of freedom, p = 0.001


def test_every_pair_is_as_likely_as_any_other() -> None:
    pairs = Counter(
        frozenset(choose(NAMES[:5], 2, Key.root(number))) for number in range(3000)
    )
    assert len(pairs) == 10
    assert sum((n - 300) ** 2 / 300 for n in pairs.values()) < 27.9


def test_every_place_is_as_likely_for_a_client_as_any_other() -> None:
    places = Counter(
        choose(NAMES, 10, Key.root(number)).index("client-7") for number in range(3000)
    )
    assert sum((places[i] - 300) ** 2 / 300 for i in range(10)) < 27.9


def test_another_key_gives_another_sample() -> None:
    assert len({tuple(choose(NAMES, 5, Key.root(seed))) for seed in range(20)}) > 15


def test_a_choice_costs_what_it_chooses() -> None:
    everyone = range(10**12)  # no list of them was ever made
    chosen = choose(everyone, 5, Key.root(3))  # type: ignore[arg-type]
    assert len(set(chosen)) == 5
