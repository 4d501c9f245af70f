"""Many clients in one process, under a virtual clock."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsim.api import run as run


def __getattr__(name: str) -> Any:
    """``run``, when it is asked for: a command imports it where errors are told."""
    if name != "run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fedsim.api import run

    return run
