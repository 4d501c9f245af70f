"""Reads YAML files of the user with a sentence for each mistake, and writes values."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from fedcore.errors import ConfigError
from fedcore.text import brief
from fedrun.config.explain import explain
from fedrun.config.yaml_loader import read_yaml
from fedrun.plain_files import read_plain

MOST_BYTES = 1 << 20  # of a YAML file

Model = TypeVar("Model", bound=BaseModel)


def text_of(path: Path) -> str:
    """Returns what a file holds.

    Raises:
        ConfigError: it cannot be read, or is no text of a usual size.
    """
    try:
        return read_plain(path, MOST_BYTES).decode()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text in UTF-8") from error


def mapping_of(
    text: str, source: str, expected: str = "keys and values"
) -> dict[str, Any]:
    """Returns the keys and values of a YAML text; those of an empty one are none.

    Args:
        text: the YAML.
        source: where it is from, for errors.
        expected: what should be there, in words.

    Raises:
        ConfigError: it is no YAML of plain data, holds something else, or has a key
            twice.
    """
    try:
        raw = read_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(_not_yaml(source, error)) from error
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: expected {expected}, found {type(raw).__name__}")
    return raw


def validate(
    model: type[Model], raw: Any, source: str, text: str, changes: Iterable[str] = ()
) -> Model:
    """Returns plain data as a model.

    Args:
        model: the class.
        raw: the data.
        source: where they are from, for errors.
        text: the YAML that they were read from, for the lines of mistakes.
        changes: those of the data that are not in the YAML, as ``field=value``.

    Raises:
        ConfigError: one line for each mistake.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        lines = explain(error, raw, model, source, text, changes)
        raise ConfigError("\n".join(lines)) from error


def one_line(value: Any) -> str:
    """Returns a value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return str(text).removesuffix("\n").removesuffix("\n...")


def changes_of(values: Mapping[str, Any] | None) -> list[str]:
    """Returns values by field as ``field=value`` changes, as ``--set`` takes them."""
    return [f"{field}={value_text(value)}" for field, value in (values or {}).items()]


def value_text(value: Any) -> str:
    """Returns a value as ``--set`` takes it: a text as it is, else one line of YAML."""
    if isinstance(value, str):
        return value
    return one_line(value.item() if hasattr(value, "item") else value)


def _not_yaml(source: str, error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        return f"{source}:{line}: not YAML: {brief(str(error.problem))}"
    return f"{source}: not YAML: {brief(' '.join(str(error).split()))}"
