"""Loads the compiled loops, and decides which arrays go through them."""

import os
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError

VARIABLE = "LATECOMER_KERNELS"
INTERFACE = 8  # of the compiled module; another one was left by an older install


def load(
    choice: str | None = None,
    name: str = "fedcore.kernels._compiled",
    interface: int = INTERFACE,
) -> ModuleType | None:
    """Loads a compiled module; returns None if NumPy is chosen or nothing was compiled.

    Args:
        choice: "compiled" if it must be there, "numpy" if it is not wanted, or "";
            without it, what the environment says.
        name: of the module.
        interface: the one that its caller was written for.

    Raises:
        ConfigError: the choice is unknown, or what was asked for is not there.
    """
    if choice is None:
        choice = os.environ.get(VARIABLE, "")
    if choice not in ("", "numpy", "compiled"):
        raise ConfigError(
            f"{VARIABLE} is {choice!r}, expected 'numpy', 'compiled' or nothing"
        )
    if choice == "numpy":
        return None
    try:
        module = import_module(name)
        if interface != module.INTERFACE:
            raise ImportError("they are of another version; install the package again")
    except ImportError as absent:
        if choice == "compiled":
            raise ConfigError(
                f"{VARIABLE} is 'compiled', but none fit: install the package "
                "with a C compiler, or leave the variable out"
            ) from absent
        return None
    return module


compiled = load()


def in_use() -> Literal["compiled", "numpy"]:
    """Returns what the codecs of this process run on."""
    return "numpy" if compiled is None else "compiled"


def find_compiled(*arrays: Any) -> Any:
    """Returns the compiled module if it takes all of these arrays, else None."""
    if compiled is None or not all(map(_simple, arrays)):
        return None
    return compiled


def _simple(x: Any) -> bool:
    """Returns whether an array is one piece of memory of a type that loops know."""
    return (
        isinstance(x, np.ndarray)
        and x.dtype.char in "fbB?"
        and x.flags.c_contiguous
        and x.flags.aligned
        and x.dtype.isnative
    )


def align(x: Any, dtype: npt.DTypeLike) -> Any:
    """Returns a few numbers as the loops need them, copied only if necessary."""
    return np.require(x, dtype, ["C_CONTIGUOUS", "ALIGNED"])
