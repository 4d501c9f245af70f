"""Files that are either there whole or not at all."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fedcore.errors import ModelError
from fedcore.params import ParamSpec
from fedcore.typing import Vector
from fedrun.durable import (
    PRIVATE_FILE,
    make_folder,
    ordinary_mode,
    sync_file,
    sync_folder,
)

SPEC, DIGEST = "latecomer.spec", "latecomer.digest"


def rename(temporary: Path, path: Path) -> None:
    """A file that was written beside its place takes it, durably."""
    sync_file(temporary)
    os.replace(temporary, path)
    sync_folder(path.parent)


def save_arrays(
    path: Path,
    arrays: dict[str, npt.NDArray[Any]],
    metadata: dict[str, str],
    *,
    private: bool = True,
) -> None:
    """Writes a safetensors file durably: beside it first, then renamed."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.tmp")
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        save_file(contiguous, temporary, metadata)
        temporary.chmod(PRIVATE_FILE if private else ordinary_mode(path))
        rename(temporary, path)
    except (SafetensorError, OSError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink()  # it would take the room that others need
        if isinstance(error, OSError):
            raise
        raise OSError(errno.EIO, str(error), str(path)) from error


def load_arrays(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """The arrays and metadata of a safetensors file.

    Raises:
        ModelError: there is none, or it is damaged.
    """
    try:
        with safe_open(path, "np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return arrays, file.metadata() or {}
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path}: not a safetensors file: {error}") from error


def save_model(
    path: Path,
    spec: ParamSpec,
    flat_D: Vector,
    *,
    private: bool = False,
    **metadata: str,
) -> None:
    """Writes a model as named tensors, with what is needed to serve it.

    A server may have another user than whoever wrote the model, unless it is private.
    """
    told = {SPEC: spec.to_json(), **metadata}
    save_arrays(path, spec.unflatten(flat_D), told, private=private)


def load_model(path: Path) -> tuple[ParamSpec, Vector]:
    """A model from any safetensors checkpoint.

    A file that this program wrote keeps its order of tensors; of any other, the
    order is that of the file.

    Raises:
        ModelError: the file is missing, damaged, or holds no floating-point tensors.
    """
    arrays, metadata = load_arrays(path)
    try:
        if SPEC in metadata:
            spec = ParamSpec.from_json(metadata[SPEC])
        else:
            spec = ParamSpec.of(arrays)
        return spec, spec.flatten({t.name: arrays[t.name] for t in spec.tensors})
    except KeyError as error:
        raise ModelError(f"{path}: tensor {error} is missing") from error
