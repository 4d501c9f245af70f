"""The library flwr, if it is installed and recent enough."""

import os
import re
from functools import cache
from importlib.metadata import version
from typing import Any

from fedcore.errors import ConfigError
from fedrun.optional import require

OLDEST = (1, 24)  # the first whose range of protobuf overlaps with ours
EXTRA = "flower"
PURPOSE = "a Flower app"


def flwr(module: str, purpose: str = PURPOSE) -> Any:
    """Imports a module of flwr.

    Flower then sends no telemetry; it reads that once, when it is imported.

    Args:
        module: its dotted name.
        purpose: the feature that needs it, for the error message.

    Raises:
        ConfigError: it is not installed, or too old; the message says how to get it.
    """
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    require("flwr", EXTRA, purpose)
    found = _read_version()
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigError(
            f"{purpose} needs flwr {oldest} or newer, found {found}: "
            f"pip install -U 'latecomer[{EXTRA}]'"
        )
    return require(module, EXTRA, purpose)


@cache
def _read_version() -> str:
    """Returns the version of flwr; reading it takes a millisecond."""
    return version("flwr")
