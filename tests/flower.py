"""Imports flwr before tests use it: its own imports warn of what is deprecated."""

import warnings
from contextlib import suppress

from fedcore.errors import ConfigError
from fedflower.app.library import flwr


def import_flwr() -> None:
    """Imports what apps import; without flwr it does nothing."""
    with warnings.catch_warnings(), suppress(ConfigError):
        warnings.simplefilter("ignore")
        for name in ("clientapp", "serverapp.strategy", "server.strategy", "client"):
            flwr(f"flwr.{name}")
