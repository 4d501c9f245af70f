"""Everything that is registered in a role, with a few variants of its settings."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import ValidationError

from fedcore.config import Method, methods

_ONLY: list[type[Method]] = []  # to be examined; none: all


def examine(own: Sequence[type[Method]]) -> None:
    """Has the laws look at these methods alone; to be called before they are read."""
    _ONLY.extend(own)


def every(role: Any) -> list[type[Method]]:
    """The methods of a role that are to be examined."""
    return [each for each in methods(role) if not _ONLY or each in _ONLY]


def variants(role: Any, *more: Any) -> list[Any]:
    """Each method's example with all its choices and switches, and ``more``."""
    found: dict[str, Method] = {}
    for method in every(role):
        for config in [method.example(), *_choices(method.example())]:
            found.setdefault(config.model_dump_json(), config)
    if not _ONLY:
        found.update((config.model_dump_json(), config) for config in more)
    return list(found.values())


def named(configs: Sequence[Method]) -> pytest.MarkDecorator:
    """A parametrisation over ``config`` whose ids say what differs from the default."""
    return pytest.mark.parametrize("config", configs, ids=map(name_of, configs))


def name_of(config: Method) -> str:
    """The kind, and the settings that are not the default ones."""
    settings = config.model_dump(exclude_defaults=True, exclude={"kind"})
    parts = [f"{key}={_short(value)}" for key, value in settings.items()]
    return " ".join([config.kind, *parts])


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + " ".join(_short(part) for part in value.values()) + ")"
    return str(value)


def _choices(example: Method) -> Iterator[Method]:
    """The example with every combination of its literals and booleans."""
    fields = type(example).model_fields
    options = {
        name: (True, False) if field.annotation is bool else get_args(field.annotation)
        for name, field in fields.items()
        if field.annotation is bool or get_origin(field.annotation) is Literal
    }
    for chosen in itertools.product(*options.values()):
        settings = example.model_dump() | dict(zip(options, chosen, strict=True))
        try:
            yield type(example).model_validate(settings)
        except ValidationError:
            continue
