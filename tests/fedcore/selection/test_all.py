"""First come, first served."""

from fedcore.rng import Key
from fedcore.selection import All


def test_whoever_came_first_is_taken_first() -> None:
    assert list(All().build().order(None, 2)(["c", "a", "b"], Key.root(0))) == [
        "c",
        "a",
        "b",
    ]
