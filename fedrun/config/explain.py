"""Turns pydantic's findings into sentences: field, given, allowed, nearest name."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedcore.config import Method, kind_of, methods
from fedcore.text import LONG_SENTENCE, brief
from fedrun.config.yaml_loader import compose_yaml
from fedrun.methods import missing

MOST_MISTAKES = 20  # that are told
_LONG_VALUE = 200  # characters
_SECTION_OF_ALL = "(whole file)"


def explain(
    error: ValidationError,
    raw: Any,
    model: type[BaseModel],
    source: str,
    text: str,
    changes: Iterable[str] = (),
) -> list[str]:
    """Returns a line for each mistake, in the order of the file.

    A mistake in ``field=value`` changes, or in a section that they change, names them,
    and no line of the file.
    """
    lines = _line_numbers(text)
    changed = {tuple(each.partition("=")[0].split(".")): each for each in changes}
    details = [
        (_line_of(each["loc"], lines), each) for each in error.errors(include_url=False)
    ]
    details.sort(key=lambda item: item[0] or 0)
    found = []
    for line, detail in details[:MOST_MISTAKES]:
        path = detail["loc"]
        is_missing = detail["type"] == "missing"
        section = path[:-1] if is_missing else path
        field = brief(".".join(map(str, path))) or _SECTION_OF_ALL
        where = f"{source}:{line}: {field}" if line else f"{source}: {field}"
        inside = [each for at, each in changed.items() if section == at[: len(section)]]
        if inside and not (is_missing and not section):
            where = ", ".join(inside) + (f": {field}" if section else "")
        setting = (*path, "kind") if detail["type"] == "unknown_kind" else path
        for at, each in changed.items():
            if setting[: len(at)] == at:
                where = each if setting == at else f"{each}: {field}"
        said = brief(_sentence(detail, raw, path, model), LONG_SENTENCE)
        found.append(f"{where}: {said}")
    if (more := len(details) - len(found)) > 0:
        found.append(f"{source}: and {more:,} more mistakes")
    return found


def _sentence(
    detail: ErrorDetails, raw: Any, path: tuple[int | str, ...], model: type[BaseModel]
) -> str:
    given, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return _unknown_key(str(path[-1]), _fields_at(raw, path[:-1], model))
        case "unknown_setting":
            return _unknown_key(str(path[-1]), context["names"].split(", "))
        case "unknown_kind":
            kind, kinds = context["given"], context["kinds"]
            nearest = _nearest(kind, kinds.split(", "))
            broken = f"; {why}" if (why := missing()) else ""
            named = f"unknown {context['role']} {_show(kind)}"
            known = f"{named}{nearest}; kinds: {kinds}"
            return known + broken
        case "no_kind" | "two_of_a_kind":
            return detail["msg"]
        case "missing":
            return "is missing"
        case "value_error":
            return str(context["error"])
        case "model_type" | "dict_type":
            return f"should be a section of keys and values, got {_show(given)}"
        case "tuple_type":
            return f"should be a list, got {_show(given)}"
        case "path_type":
            return f"should be a path, got {_show(given)}"
        case _:
            message = detail["msg"].removeprefix("Input ")
            return f"{message[0].lower()}{message[1:]}, got {_show(given)}"


def _show(given: Any) -> str:
    return brief(repr(given), _LONG_VALUE)


def _unknown_key(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f"unknown key{_nearest(key, names)}; allowed: {', '.join(names)}"


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name[:_LONG_VALUE], known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _fields_at(
    raw: Any, path: Sequence[int | str], model: type[BaseModel]
) -> list[str]:
    """Returns the keys that the section at this path may have."""
    return list(_model_at(raw, path, model).model_fields)


def _model_at(
    raw: Any, path: Sequence[int | str], model: type[BaseModel]
) -> type[BaseModel]:
    """Returns the model that reads the section at this path, as its kind says.

    An entry of ``overrides`` has the fields of the method around it.
    """
    place, section, method = raw, model, model
    for step in path:
        if isinstance(step, int):
            place = place[step] if isinstance(place, list) else None
        else:
            fields = {**method.model_fields, **section.model_fields}
            annotation = fields[step].annotation
            place = place.get(step) if isinstance(place, dict) else None
            section = _model_in(annotation) or section
        if issubclass(section, Method) and isinstance(place, dict):
            kinds = {kind_of(each): each for each in methods(section)}
            section = method = kinds.get(str(place.get("kind")), section)
    return section


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Returns the model in an annotation such as ``TLSConfig | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _model_in(part)
        if found is not None:
            return found
    return None


def _line_numbers(text: str) -> dict[tuple[int | str, ...], int]:
    """Returns the line of every key of a YAML text."""
    lines: dict[tuple[int | str, ...], int] = {}

    def walk(node: yaml.Node | None, path: tuple[int | str, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                lines[*path, key.value] = key.start_mark.line + 1
                walk(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                lines[*path, i] = value.start_mark.line + 1
                walk(value, (*path, i))

    walk(compose_yaml(text), ())
    return lines


def _line_of(
    path: tuple[int | str, ...], lines: dict[tuple[int | str, ...], int]
) -> int | None:
    """Returns the line of the key, or of the section that should have it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None
