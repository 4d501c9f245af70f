"""Everything that an object holds, as plain values that can be compared."""

import dataclasses
from collections import deque
from typing import Any

import numpy as np

from fedcore.coordinator.published import Published
from fedcore.coordinator.state import Learnt, ServerState

# What is derived from all the rest, or no part of the state.
_DERIVED = {
    ServerState: {"at", "algorithm"},
    Learnt: {"_algorithm"},
    Published: {
        "layout",
        "_patches",
        "_patch_bytes",
        "_sums",
        "_room",
        "_with_message",
    },
}


def photo(thing: Any) -> Any:
    """A deep copy; unlike a snapshot it cannot leave anything out."""
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.tolist()
    if isinstance(thing, dict):
        return {key: photo(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple | deque):
        return [photo(value) for value in thing]
    if isinstance(thing, str | int | float | bytes | memoryview | None):
        return thing
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
        return {name: photo(getattr(thing, name)) for name in names}
    hidden = _DERIVED.get(type(thing), set())
    return {
        name: photo(value) for name, value in vars(thing).items() if name not in hidden
    }
