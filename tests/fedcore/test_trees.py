"""States as JSON and arrays."""

import json
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest

from fedcore.trees import Arrays, load_tree, save_tree, with_arrays


class Inner(NamedTuple):
    """A part of a state."""

    window_W: np.ndarray
    seen: int


class Outer(NamedTuple):
    """A state with parts of all kinds."""

    inner: Inner
    stack: tuple[np.ndarray, ...]
    name: str
    rate: float
    on: bool
    none: None


def state() -> Outer:
    inner = Inner(np.arange(3), 7)
    return Outer(inner, (np.ones(2, np.float32), np.zeros(0)), "x", 0.1, True, None)


def test_a_state_of_all_kinds_comes_back_equal() -> None:
    arrays: Arrays = {}
    tree = json.loads(json.dumps(save_tree(state(), "role", arrays)))
    loaded = load_tree(state(), tree, arrays)
    assert isinstance(loaded, Outer)
    assert isinstance(loaded.inner, Inner)
    assert loaded.inner.window_W.tolist() == [0, 1, 2]
    assert loaded.inner.seen == 7
    assert [part.tolist() for part in loaded.stack] == [[1, 1], []]
    assert loaded.stack[0].dtype == np.float32
    assert loaded[2:] == ("x", 0.1, True, None)


def test_arrays_are_named_by_their_place() -> None:
    arrays: Arrays = {}
    save_tree(state(), "role", arrays)
    assert sorted(arrays) == ["role.0.0", "role.1.0", "role.1.1"]


def test_what_is_loaded_is_a_copy_of_what_was_saved() -> None:
    arrays: Arrays = {}
    original = np.ones(2)
    tree = save_tree(original, "role", arrays)
    assert arrays["role"] is original
    loaded = load_tree(None, tree, arrays)
    loaded[1] = 9
    assert arrays["role"].tolist() == [1, 1]


def test_no_state_is_a_state() -> None:
    assert load_tree(None, save_tree(None, "role", {}), {}) is None
    assert load_tree((), save_tree((), "role", {}), {}) == ()


@pytest.mark.parametrize("odd", [{1, 2}, [1], {1: 1}, object(), b"x"])
def test_a_state_of_anything_else_is_refused(odd: object) -> None:
    with pytest.raises(TypeError, match="a state holds arrays, numbers"):
        save_tree((1, odd), "role", {})


def test_a_tree_gets_other_arrays_and_stays_what_it_is() -> None:
    found = with_arrays(state(), lambda array: array + 1)
    assert isinstance(found, Outer)
    assert isinstance(found.inner, Inner)
    assert found.inner.window_W.tolist() == [1, 2, 3]
    assert [part.tolist() for part in found.stack] == [[2, 2], []]
    assert found[2:] == state()[2:]


def test_a_tree_whose_arrays_stay_is_the_same_object() -> None:
    tree = state()
    assert with_arrays(tree, lambda array: array) is tree


def test_an_array_that_a_tree_holds_twice_stays_one() -> None:
    array_D, sums = np.ones(2), defaultdict[str, np.ndarray](lambda: np.zeros(2))
    sums["a"] = array_D
    both, found, plain = with_arrays(
        ((array_D, array_D), sums, (array_D,)), lambda array: array.copy()
    )
    assert both[0] is both[1] is found["a"] is plain[0] is not array_D
    assert found["b"].tolist() == [0, 0]


class Longer(NamedTuple):
    """``Inner`` of a later program."""

    window_W: np.ndarray
    seen: int
    names: dict[str, int]


def test_fields_that_a_state_has_got_since_begin_as_in_a_new_one() -> None:
    arrays: Arrays = {}
    tree = json.loads(json.dumps(save_tree(state().inner, "role", arrays)))
    loaded = load_tree(Longer(np.zeros(3), 0, {}), tree, arrays)
    assert (loaded.window_W.tolist(), loaded.seen, loaded.names) == ([0, 1, 2], 7, {})
    longer = save_tree(Longer(np.arange(3), 7, {"ann": 1}), "role", arrays)
    with pytest.raises(ValueError, match="zip"):
        load_tree(state().inner, longer, arrays)
