"""Checks that the fields of what was saved have the types that they should.

A checksum proves that a record is what was written, and not that this program wrote it.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from fedcore.typing import Bytes

Check = Callable[[Any], bool]
WHOLE = range(-(2**63), 2**64)  # as the protocol counts
SIGNED = range(-(2**63), 2**63)  # as arrays do
_UNSIGNED = ("seed", "samples", "seq", "task", "proof")  # up to 2^64
_LONG = 30  # characters of a number
_CLAIMED = ("update_norm", "memory_norm", "gap_norm", "loss")  # may be NaN


def wrong_field(record: Any) -> str:
    """Returns which field of a dataclass is wrong, as text; empty if none is."""
    cls: Any = type(record)
    for name, check in _checks(cls):
        value = getattr(record, name)
        if not check(value):
            shown = repr(value) if isinstance(value, int | float | NoneType) else ""
            if not 0 < len(shown) < _LONG:
                shown = type(value).__name__
            return f"{name} cannot be {shown}"
    return ""


@cache
def _checks(cls: type) -> tuple[tuple[str, Check], ...]:
    """Returns the checks of a class's fields, by name."""
    hints = get_type_hints(cls)
    checks = []
    for field in dataclasses.fields(cls):
        check = check_of(hints[field.name])
        if hints[field.name] is float and field.name not in _CLAIMED:
            check = _is_finite
        elif hints[field.name] is int and field.name not in _UNSIGNED:
            check = _is_signed
        checks.append((field.name, check))
    return tuple(checks)


def check_of(hint: Any) -> Check:
    """Returns what tells whether a value is of a type."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, args = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # an alias, as NDArray is from NumPy 2.5 on
        origin = get_origin(origin.__value__)
    if hint == Bytes:
        return lambda value: isinstance(value, bytes | bytearray | memoryview)
    if origin is Literal:
        return lambda value: type(value) is str and value in args
    if origin in (Union, UnionType):
        checks = [check_of(each) for each in args]
        return lambda value: any(check(value) for check in checks)
    if origin in (Mapping, dict):
        key, worth = map(check_of, args)
        return lambda value: (
            isinstance(value, dict)
            and all(key(name) and worth(each) for name, each in value.items())
        )
    if origin in (tuple, list):
        inner = check_of(args[0])
        return lambda value: isinstance(value, origin) and all(map(inner, value))
    if origin is np.ndarray or issubclass(hint, Enum):
        return lambda value: isinstance(value, origin or hint)
    if dataclasses.is_dataclass(hint):
        return lambda value: type(value) is hint and not wrong_field(value)
    parts = [check_of(each) for each in get_type_hints(hint).values()]
    return lambda value: (
        isinstance(value, hint)
        and all(check(each) for check, each in zip(parts, value, strict=True))
    )


def _is_whole(value: Any) -> bool:
    return type(value) is int and value in WHOLE


def _is_signed(value: Any) -> bool:
    return type(value) is int and value in SIGNED


def _is_number(value: Any) -> bool:
    return type(value) is float or _is_whole(value)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return type(value) is str


_SIMPLE: dict[Any, Check] = {
    Any: lambda value: True,
    NoneType: lambda value: value is None,
    bool: lambda value: type(value) is bool,
    int: _is_whole,
    float: _is_number,
    str: _is_text,
}
