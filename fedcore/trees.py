"""Saves states of roles as JSON and arrays, from which they are restored equal."""

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.typing import State

Arrays = dict[str, npt.NDArray[Any]]


def save_tree(tree: State, name: str, arrays: Arrays) -> Any:
    """Returns JSON for nested tuples and dicts; puts their arrays into ``arrays``."""
    if isinstance(tree, np.ndarray):
        arrays[name] = tree
        return {"array": name}
    if isinstance(tree, tuple):
        return [save_tree(leaf, f"{name}.{i}", arrays) for i, leaf in enumerate(tree)]
    if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
        leaves = enumerate(tree.items())
        return {
            "dict": [
                [key, save_tree(leaf, f"{name}.{i}", arrays)]
                for i, (key, leaf) in leaves
            ]
        }
    if isinstance(tree, np.generic):
        tree = tree.item()
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(
        f"a state holds arrays, numbers, strings, tuples and dicts, not {type(tree)}"
    )


def load_tree(
    template: State, saved: Any, arrays: Mapping[str, npt.NDArray[Any]]
) -> State:
    """Returns the state that :func:`save_tree` saved, in ``template``'s tuple types.

    Fields that a tuple has got since, which are its last ones, are the template's.
    """
    if isinstance(saved, dict) and "dict" in saved:
        return {key: load_tree(None, leaf, arrays) for key, leaf in saved["dict"]}
    if isinstance(saved, dict):
        return arrays[saved["array"]].copy()
    if isinstance(saved, list):
        if hasattr(template, "_fields"):
            known = template[: len(saved)]
            parts = zip(known, saved, strict=True)
            read = [load_tree(old, new, arrays) for old, new in parts]
            return type(template)(*read, *template[len(saved) :])
        return tuple(load_tree(None, leaf, arrays) for leaf in saved)
    return saved


def with_arrays(tree: State, change: Callable[[npt.NDArray[Any]], Any]) -> State:
    """Returns a tree of nested tuples and dicts with other arrays.

    Dicts get theirs in place, and a tuple whose arrays stay is the same object.

    Args:
        tree: is used up.
        change: returns another array, or the same; it is asked once of each array.
    """
    return _with_arrays(tree, change, {})


def _with_arrays(
    tree: State,
    change: Callable[[npt.NDArray[Any]], Any],
    known: dict[int, tuple[Any, Any]],
) -> State:
    """Replaces arrays by those that ``known`` holds under their ids."""
    if isinstance(tree, np.ndarray):
        if id(tree) not in known:
            known[id(tree)] = tree, change(tree)
        return known[id(tree)][1]
    if isinstance(tree, tuple):
        leaves = [_with_arrays(leaf, change, known) for leaf in tree]
        if all(map(is_, leaves, tree)):
            return tree
        return type(tree)(*leaves) if hasattr(tree, "_fields") else tuple(leaves)
    if isinstance(tree, dict):
        for key, leaf in tree.items():
            tree[key] = _with_arrays(leaf, change, known)
    return tree


def save_each(
    trees: Mapping[int, State], name: str, arrays: Arrays
) -> list[tuple[int, Any]]:
    """Returns JSON for trees by numbers; puts their arrays into ``arrays``."""
    return [
        (number, save_tree(tree, f"{name}.{number}", arrays))
        for number, tree in trees.items()
    ]


def load_each(
    saved: Iterable[tuple[int, Any]], arrays: Mapping[str, npt.NDArray[Any]]
) -> dict[int, State]:
    """Returns the trees that :func:`save_each` saved; their tuples are plain ones."""
    return {number: load_tree(None, tree, arrays) for number, tree in saved}
