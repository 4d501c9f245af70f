"""The laws that every selection rule keeps."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from fedcore.rng import Key
from fedcore.selection import SelectionConfig
from tests.laws.registered import named, variants
from tests.laws.vectors import keys

EVERY = variants(SelectionConfig)
names = st.lists(st.text("abc", max_size=4), unique=True, max_size=12)


@named(EVERY)
@given(names, keys)
def test_all_candidates_come_each_once(
    config: SelectionConfig, candidates: list[str], key: Key
) -> None:
    ordered = list(config.build().order(tuple(candidates), key))
    assert sorted(ordered) == sorted(candidates)


@named(EVERY)
@given(names, st.integers(0, 15), keys)
def test_the_choice_follows_from_the_key(
    config: SelectionConfig, candidates: list[str], count: int, key: Key
) -> None:
    order, before = config.build().order, list(candidates)
    first = list(islice(order(candidates, key), count))
    assert first == list(order(candidates, key))[:count]
    assert candidates == before
