"""The laws that every selection rule keeps."""

from hypothesis import given
from hypothesis import strategies as st

from fedcore.rng import Key
from fedcore.selection import SelectionConfig
from tests.laws.registered import named, variants
from tests.laws.vectors import keys

EVERY = variants(SelectionConfig)
names = st.lists(st.text("abc", max_size=4), unique=True, max_size=12)


@named(EVERY)
@given(names, st.integers(0, 15), keys)
def test_the_chosen_are_candidates_each_once_and_not_too_many(
    config: SelectionConfig, candidates: list[str], count: int, key: Key
) -> None:
    chosen = config.build().choose(tuple(candidates), count, key)
    assert set(chosen) <= set(candidates)
    assert len(set(chosen)) == len(chosen) <= count


@named(EVERY)
@given(names, st.integers(0, 15), keys)
def test_there_is_room_for_everyone_who_fits(
    config: SelectionConfig, candidates: list[str], count: int, key: Key
) -> None:
    chosen = config.build().choose(candidates, count, key)
    assert len(chosen) == min(count, len(candidates))


@named(EVERY)
@given(names, st.integers(0, 15), keys)
def test_the_choice_follows_from_the_key(
    config: SelectionConfig, candidates: list[str], count: int, key: Key
) -> None:
    choose, before = config.build().choose, list(candidates)
    assert choose(candidates, count, key) == choose(candidates, count, key)
    assert candidates == before
