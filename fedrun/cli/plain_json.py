"""JSON for programs, which has no NaN and no infinity."""

import json
import math
from typing import Any


def to_json(value: Any, indent: int | None = None) -> str:
    """Returns a value as strict JSON; NaN and infinity become null."""
    return json.dumps(finite(value), indent=indent, allow_nan=False)


def finite(value: Any) -> Any:
    """Returns plain data with None for NaN and infinity, which JSON lacks."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
