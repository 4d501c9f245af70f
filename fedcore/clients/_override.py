"""One entry of ``client.overrides``: which clients, and their own settings."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    WithJsonSchema,
    model_validator,
)

from fedcore.config import Config


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _check_pattern(pattern: str) -> str:
    """Returns a pattern as it is.

    Raises:
        ValueError: it is empty, or a bracket in it is not closed.
    """
    if not pattern:
        raise ValueError("an empty pattern: expected names of clients such as phone-*")
    place = pattern.find("[")
    while place >= 0:
        end = pattern.find(
            "]", place + 3 if pattern[place + 1 : place + 2] == "!" else place + 2
        )
        if end < 0:
            raise ValueError(
                f"pattern {pattern!r}: the bracket is not closed; expected * for any "
                "text, ? for one character and [0-4] for one of some"
            )
        place = pattern.find("[", end)
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]


class Override(Config):
    """Settings of the clients whose names are like a pattern."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any]

    clients: Annotated[
        tuple[Pattern, ...],
        BeforeValidator(_as_list),
        WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
    ]
    """Their names, or patterns of them: ``*`` stands for any text, ``?`` for one
    character, ``[0-4]`` for one of some. The settings, such as ``lr``, stand beside
    this field."""

    @property
    def values(self) -> Mapping[str, Any]:
        """These clients' own settings, which replace the common ones, by field."""
        return self.__pydantic_extra__

    def names(self, client: str) -> bool:
        """Returns whether the client of this name is meant."""
        return any(fnmatchcase(client, pattern) for pattern in self.clients)

    @model_validator(mode="after")
    def _says_something(self) -> "Override":
        if not self.clients:
            raise ValueError("names no clients; give clients such as phone-*")
        if not self.values:
            raise ValueError("says nothing that differs; give a setting such as lr")
        return self
