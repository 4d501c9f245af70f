"""Packages that only some users need."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedcore.errors import ConfigError


def is_installed(module: str) -> bool:
    """Returns whether a package is there; it is not imported."""
    return find_spec(module) is not None


def require(module: str, extra: str, purpose: str) -> Any:
    """Imports a module of an optional package.

    Args:
        module: its dotted name.
        extra: of this project, which installs it.
        purpose: what cannot be done without it, for the message.

    Raises:
        ConfigError: it is not installed; the message says how to install it.
    """
    package = module.partition(".")[0]
    if not is_installed(package):
        raise ConfigError(
            f"{purpose} needs the package {package}: pip install 'latecomer[{extra}]'"
        )
    try:
        return import_module(module)
    except ModuleNotFoundError as error:  # another part of the package is there
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"{purpose} needs the module {error.name}: pip install 'latecomer[{extra}]'"
        ) from None
