"""Paths in a config, and changes of values at any depth."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from fedcore.config import Config

Section = TypeVar("Section", bound=Config)


def _require_name(given: Any) -> Any:
    if given == "":  # pydantic would take the working folder
        raise PydanticCustomError("path_type", "Input should be a path")
    return given


AnyPath = Annotated[Path, BeforeValidator(_require_name)]


def map_values(section: Section, change: Callable[[Any], Any]) -> Section:
    """Returns a config with ``change`` applied to its values and to those below.

    Args:
        section: the config.
        change: returns the new value, or the value itself if it does not change.
    """
    changes = {}
    for name in type(section).model_fields:
        old = getattr(section, name)
        new = change(old)
        if new is old and isinstance(old, Config):
            new = map_values(old, change)
        if new is not old:
            changes[name] = new
    return section.model_copy(update=changes) if changes else section
