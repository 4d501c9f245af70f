"""Saving a role's state, and comparing states."""

import json

import numpy as np

from fedcore.trees import Arrays, load_tree, save_tree
from fedcore.typing import State


def saved(state: State) -> tuple[str, dict[str, bytes]]:
    """A copy of a state that can be compared."""
    arrays: Arrays = {}
    text = json.dumps(save_tree(state, "state", arrays))
    return text, {name: _described(array) for name, array in arrays.items()}


def reloaded(state: State, template: State) -> State:
    """The state after a way through JSON and arrays."""
    arrays: Arrays = {}
    tree = json.loads(json.dumps(save_tree(state, "state", arrays)))
    return load_tree(template, tree, arrays)


def _described(array: np.ndarray) -> bytes:
    return f"{array.dtype} {array.shape} ".encode() + array.tobytes()
