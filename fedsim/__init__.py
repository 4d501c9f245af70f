"""Many clients in one process, under a virtual clock."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsim.api import run as run
    from fedsim.experiments.api import compare_codecs as compare_codecs
    from fedsim.experiments.api import compare_runs as compare_runs
    from fedsim.experiments.api import run_sweep as run_sweep

_HOMES = {
    "compare_codecs": "fedsim.experiments.api",
    "compare_runs": "fedsim.experiments.api",
    "run": "fedsim.api",
    "run_sweep": "fedsim.experiments.api",
}


def __getattr__(name: str) -> Any:
    """What is asked for, and not before: a command imports it where errors are told."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, also before they are imported."""
    return sorted({*globals(), *_HOMES})
