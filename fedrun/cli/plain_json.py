"""JSON for programs, which has no NaN and no infinity."""

import json
import math
from typing import Any


def to_json(value: Any, indent: int | None = None) -> str:
    """Returns a value as strict JSON; NaN and infinity become null."""
    return json.dumps(_without_nan(value), indent=indent, allow_nan=False)


def _without_nan(value: Any) -> Any:
    """The value with null for NaN and infinity, which JSON lacks."""
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
