"""First come, first served."""

from fedcore.rng import Key
from fedcore.selection import All


def test_whoever_came_first_is_taken_first() -> None:
    choose = All().build().choose
    assert choose(["c", "a", "b"], 2, Key.root(0)) == ["c", "a"]
    assert choose(("c", "a", "b"), 9, Key.root(0)) == ["c", "a", "b"]
