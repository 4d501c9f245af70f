"""Imports flwr before the tests, since its own imports warn of what is deprecated."""

import warnings
from contextlib import suppress

from fedcore.errors import ConfigError
from fedrun.flower.library import flwr

with warnings.catch_warnings(), suppress(ConfigError):  # without it tests are skipped
    warnings.simplefilter("ignore")
    for name in ("clientapp", "serverapp.strategy", "server.strategy", "client"):
        flwr(f"flwr.{name}")
