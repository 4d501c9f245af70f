"""Checks the types of the arguments that scripts pass to the functions of latecomer."""

from collections.abc import Mapping
from pathlib import Path

from fedcore.errors import ConfigError


def expect_type(wanted: str, *types: type, **given: object) -> None:
    """Checks that arguments are of a type; None means that one was not given.

    Args:
        wanted: what is expected, in words.
        types: those that an argument may have; bool is no number.
        **given: the arguments.

    Raises:
        ConfigError: an argument has another type.
    """
    for name, value in given.items():
        is_wrong_bool = isinstance(value, bool) and bool not in types
        if value is not None and (is_wrong_bool or not isinstance(value, types)):
            raise ConfigError(f"{name}: expected {wanted}, got {value!r}")


def expect_paths(**given: object) -> None:
    """Checks that arguments are paths or texts; None means that one was not given.

    Raises:
        ConfigError: an argument has another type.
    """
    expect_type("a path", str, Path, **given)


def expect_list(wanted: str, *types: type, **given: object) -> None:
    """Checks that arguments are lists or tuples; None means that one was not given.

    Args:
        wanted: what is expected, in words.
        types: those that an item may have; bool is no number.
        **given: the arguments.

    Raises:
        ConfigError: an argument is no list, or an item has another type.
    """
    for name, value in given.items():
        expect_type(wanted, list, tuple, range, **{name: value})
        for item in value or ():  # type: ignore[attr-defined]
            if item is None:
                raise ConfigError(f"{name}: expected {wanted}, got {value!r}")
            expect_type(wanted, *types, **{name: item})


def expect_config(config: object, app: object, changes: object) -> None:
    """Checks the arguments that name a federation.

    Raises:
        ConfigError: an argument has another type.
    """
    if config is None:
        raise ConfigError("config: expected the path of a YAML file, got None")
    expect_paths(config=config)
    expect_type("a text such as 'my_app:workload'", str, app=app)
    expect_changes(changes)


def expect_changes(changes: object) -> None:
    """Checks the values that replace those of a config.

    Raises:
        ConfigError: they are no dict.
    """
    expect_type(
        "values by field, such as {'algorithm.buffer': 8}", Mapping, changes=changes
    )


def expect_count(**given: object) -> None:
    """Checks that arguments are whole numbers from 1 on.

    Raises:
        ConfigError: an argument is something else.
    """
    for name, value in given.items():
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}: expected 1 or more, got {value!r}")


def file_of(config: object) -> Path:
    """Returns the config as a path, since other processes read it too.

    Raises:
        ConfigError: it is no path and no text.
    """
    if not isinstance(config, str | Path):
        raise ConfigError(
            "config: expected the path of a YAML file, which names the app, got "
            f"{type(config).__name__}"
        )
    return Path(config)


def path_of(given: str | Path | None) -> Path | None:
    """Returns a path, or None where none was given."""
    return None if given is None else Path(given)
