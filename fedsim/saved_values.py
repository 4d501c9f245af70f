"""Saves values of the core's own classes as JSON and arrays, and restores them.

A restored value equals the saved one: the same classes, keys and bytes. A tuple of a
class from elsewhere, such as a user's method, becomes a plain tuple.
"""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.trees import Arrays

_OURS = "fedcore."  # a file can name no other classes


def save(value: Any, arrays: Arrays) -> Any:
    """Returns JSON for a value; copies of arrays and bytes go to ``arrays``.

    Raises:
        TypeError: the value holds an object of another kind.
    """
    kind = type(value)
    if isinstance(value, Enum):
        return {"enum": _name_of(kind), "is": value.value}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return {"array": _put(np.array(value), arrays)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": _put(np.frombuffer(value, np.uint8).copy(), arrays)}
    if isinstance(value, Mapping):
        return {"map": [[save(k, arrays), save(v, arrays)] for k, v in value.items()]}
    if isinstance(value, tuple):
        name = _name_of(kind) if _is_ours(kind) else "tuple"
        return {name: [save(each, arrays) for each in value]}
    if isinstance(value, list):
        return [save(each, arrays) for each in value]
    if is_dataclass(kind) and _is_ours(kind):
        parts = (getattr(value, field.name) for field in fields(value))
        return {_name_of(kind): [save(each, arrays) for each in parts]}
    raise TypeError(f"a snapshot holds no {kind}")


def load(saved: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Returns the value that :func:`save` saved."""
    if isinstance(saved, list):
        return [load(each, arrays) for each in saved]
    if not isinstance(saved, dict):
        return saved
    match saved:
        case {"enum": name, "is": value}:
            return _class_of(name)(value)
        case {"array": name}:
            array = arrays[name].copy()
            return array if array.ndim else array[()]
        case {"bytes": name}:
            return arrays[name].tobytes()
        case {"map": pairs}:
            return {load(k, arrays): load(v, arrays) for k, v in pairs}
    [(name, parts)] = saved.items()
    values = [load(each, arrays) for each in parts]
    if name == "tuple":
        return tuple(values)
    cls = _class_of(name)
    if issubclass(cls, tuple):
        return cls(*values)
    return cls(**dict(zip((f.name for f in fields(cls)), values, strict=True)))


def _put(array: npt.NDArray[Any], arrays: Arrays) -> str:
    name = f"value.{len(arrays)}"
    arrays[name] = array
    return name


def _is_ours(kind: type) -> bool:
    """Returns whether a class is a record of the core, and not a plain tuple."""
    is_record = hasattr(kind, "_fields") or is_dataclass(kind)
    return is_record and kind.__module__.startswith(_OURS)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_of(name: str) -> Any:
    """Returns the class of a name; only records and enums of the core have one."""
    module, _, kind = name.partition(":")
    found = getattr(sys.modules.get(module), kind, None)
    is_enum = isinstance(found, type) and issubclass(found, Enum)
    if not (isinstance(found, type) and module.startswith(_OURS)) or not (
        is_enum or _is_ours(found)
    ):
        raise ValueError(f"{name} is no class of a snapshot")
    return found
