"""Reads JSON that somebody else may have written."""

import json
from typing import Any

MOST_DEPTH = 64  # lists and objects in each other: what walks through them recurses
_TOO_DEEP = f"more than {MOST_DEPTH} lists and objects in each other"


def read_json(text: str) -> Any:
    """Returns what a JSON text says.

    Raises:
        ValueError: it is no JSON, is nested too deeply, or holds half a character.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MOST_DEPTH:
        require_shallow(found)
    if "\\ud" in text or "\\uD" in text:
        json.dumps(found, ensure_ascii=False).encode()  # raises a ValueError
    return found


def require_shallow(value: Any) -> None:
    """Checks that not too many lists and sections are in each other.

    Raises:
        ValueError: there are.
    """
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    raise ValueError(_TOO_DEEP)
