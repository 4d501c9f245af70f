"""Reads the YAML; every mistake is reported at once, in sentences."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from fedcore.algorithm import AlgorithmConfig
from fedcore.distributions import Empirical
from fedcore.errors import ConfigError
from fedcore.recipes import AnyRecipe
from fedcore.text import brief, from_peer
from fedrun.config.model import FederationConfig
from fedrun.config.values import map_values
from fedrun.config.yaml_loader import MOST_LEVELS, read_yaml
from fedrun.config.yaml_text import changes_of, mapping_of, text_of, validate
from fedrun.methods import load_installed, missing, name_files, require_named

_MOST_PROBLEMS = 5  # of what a server told, that are shown


Changes = Iterable[str] | Mapping[str, Any]
"""``a.b=value`` each, or values by field; a value that is a text is read as YAML."""


def load_config(path: Path, changes: Changes = ()) -> FederationConfig:
    """Returns the federation that a file describes, with changes as ``--set`` has them.

    Relative paths in it are taken from the file's folder.

    Raises:
        ConfigError: one line for each mistake: the field, what was given, what is
            allowed.
    """
    text = text_of(path)
    raw = mapping_of(text, str(path))
    return config_in(path.resolve().parent, raw, changes, str(path), text)


def read_config(
    given: FederationConfig | Mapping[str, Any] | str | Path,
) -> FederationConfig:
    """Returns the federation that a Python program describes.

    Args:
        given: the path of a YAML file, a mapping of the same shape, whose relative
            paths are taken from the working folder, or a config that was read before.

    Raises:
        ConfigError: it has mistakes, or is something else.
    """
    if isinstance(given, FederationConfig):
        return given
    if isinstance(given, str | Path):
        return load_config(Path(given))
    if not isinstance(given, Mapping):
        raise ConfigError(
            "config: expected the path of a YAML file, a mapping or a "
            f"FederationConfig, got {type(given).__name__}"
        )
    return parse_config(name_files(given, Path.cwd()))


def config_in(
    folder: Path,
    raw: dict[str, Any],
    changes: Changes = (),
    source: str = "config",
    text: str = "",
) -> FederationConfig:
    """Returns the federation that plain data describes, whose files are in a folder.

    Args:
        folder: from which relative paths are taken.
        raw: the data, which the changes change.
        changes: each as ``a.b=value``, or values by field.
        source: where they stand, for messages.
        text: the YAML that they come from, if any.

    Raises:
        ConfigError: it has mistakes, one in each line.
    """
    shown = changes_of(changes) if isinstance(changes, Mapping) else [*changes]
    if isinstance(changes, Mapping):
        for (field, value), change in zip(changes.items(), shown, strict=True):
            _change(raw, field, _value_of(value, change), change)
    else:
        for change in shown:
            change_config(raw, change)
    raw = name_files(raw, folder)
    return _in_folder(parse_config(raw, source, text, shown), folder)


def parse_config(
    raw: Any, source: str = "config", text: str = "", changes: Iterable[str] = ()
) -> FederationConfig:
    """Returns the federation that plain data describes.

    The files of methods that it names are not imported; somebody must have done so.

    Raises:
        ConfigError: it has mistakes, or a file of methods was not imported.
    """
    load_installed()
    require_named(raw)
    return validate(FederationConfig, raw, source, text, changes)


def parse_algorithm(text: str) -> AlgorithmConfig:
    """Returns the algorithm that a server told its client, as JSON."""
    load_installed()
    try:
        return TypeAdapter(AnyRecipe).validate_json(text)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, d['loc']))}: {d['msg']}"
            for d in error.errors()[:_MOST_PROBLEMS]
        ]
        broken = [why] if (why := missing()) else []
        raise ConfigError(from_peer("; ".join([*broken, *problems]))) from error


def read_setting(option: str, item: str, example: str) -> tuple[str, Any]:
    """Returns the name and the value of a ``name=value``; the value is read as YAML.

    Args:
        option: of the command line that it was given to, for errors.
        item: what was given.
        example: what could have been given.

    Raises:
        ConfigError: it has no name, or no value in YAML.
    """
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise ConfigError(f"{option} {brief(item)}: expected {example}")
    return name, read_value(f"{option} {brief(item)}", value)


def read_value(source: str, text: str) -> Any:
    """Returns a value of the command line, which is read as YAML.

    Args:
        source: where it is from, for the error.
        text: the value.

    Raises:
        ConfigError: it is no YAML.
    """
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        why = brief(" ".join(str(getattr(error, "problem", error)).split()))
        shown = brief(text)
        raise ConfigError(f"{source}: {shown!r} is not a YAML value: {why}") from error


def change_config(raw: dict[str, Any], change: str) -> None:
    """Applies one ``a.b=value``; the value is read as YAML."""
    example = "field=value, such as stop.versions=10"
    name, given = read_setting("--set", change, example)
    _change(raw, name, given, change)


def _value_of(given: Any, change: str) -> Any:
    """Returns a value that a script gave, as plain data."""
    if isinstance(given, str):
        return read_value(f"--set {brief(change)}", given)
    return given.item() if hasattr(given, "item") else deepcopy(given)


def _change(raw: dict[str, Any], name: str, given: Any, change: str) -> None:
    """Applies one value; ``change`` is how errors name it."""
    place: Any = raw
    *parents, last = name.split(".", MOST_LEVELS)
    for parent in parents:
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            raise ConfigError(
                f"--set {brief(change)}: {parent!r} is a value, not a section"
            )
    if last == "kind" and parents != ["algorithm"] and place.get("kind") != given:
        place.clear()  # another method has other settings
    place[last] = given


def _in_folder(config: FederationConfig, folder: Path) -> FederationConfig:
    """Returns a config whose relative paths are taken from a folder."""

    def place(value: Any) -> Any:
        if isinstance(value, Path):
            return folder / value
        if isinstance(value, Empirical) and value.file is not None:
            return value.model_copy(update={"file": str(folder / value.file)})
        return value

    return map_values(config, place)
