"""Chooses the device that torch computes on: the CPU or an accelerator."""

import torch

from fedcore.config import check_device
from fedcore.errors import ConfigError


def find_device(name: str) -> torch.device:
    """Returns the device of a name: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` or ``auto``.

    ``auto`` is the first of CUDA, MPS and the CPU that this machine has.

    Raises:
        ConfigError: the name is unknown, or this machine has no such device.
    """
    try:
        kind, _, number = check_device(name).partition(":")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    here = {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 1,
    }
    if kind == "auto":
        return torch.device(next(kind for kind, count in here.items() if count))
    if not here[kind]:
        found = ", ".join(kind for kind, count in here.items() if count)
        raise ConfigError(
            f"device {name}: torch {torch.__version__} finds none on this machine; "
            f"it finds {found}; auto takes the best"
        )
    if number and int(number) >= here[kind]:
        raise ConfigError(
            f"device {name}: this machine has cuda:0 to cuda:{here[kind] - 1}"
        )
    return torch.device(name)
