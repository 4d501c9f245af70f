"""No difference."""

from fedcore.distributions import Same
from fedcore.rng import Key


def test_all_are_one() -> None:
    assert Same().draw(Key.root(0).generator(), 3).tolist() == [1, 1, 1]
