"""Writes files that are there whole or not at all, and reads them."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fedcore.errors import ModelError
from fedcore.params import NO_REST, ParamSpec, Rest
from fedcore.typing import Vector
from fedrun.checksums import CHECK, checksum_of
from fedrun.durable import (
    PRIVATE_FILE,
    make_folder,
    ordinary_mode,
    sync_file,
    sync_folder,
)

SPEC, TIED, ABOUT = "latecomer.spec", "latecomer.tied", "latecomer.about"
VERSION = "version"


def rename(temporary: Path, path: Path) -> None:
    """Durably moves a file, which was written beside its place, to its place."""
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
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
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
    """Reads the arrays and metadata of a safetensors file.

    Raises:
        ModelError: there is none, or it is damaged.
    """
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return arrays, file.metadata() or {}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, "np") as file:
            yield file
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path}: not a safetensors file: {error}") from error


def save_model(
    path: Path,
    spec: ParamSpec,
    flat_D: Vector,
    *,
    rest: Rest = NO_REST,
    private: bool = False,
    **metadata: str,
) -> None:
    """Writes a model as named tensors, with what is needed to serve it.

    With the ``rest`` the file is a whole checkpoint, which any program can load. Unless
    it is private, other users can read it, such as that of a server.
    """
    told = {SPEC: spec.to_json(), **metadata}
    if rest.tied:
        told[TIED] = json.dumps(dict(rest.tied), sort_keys=True)
    if rest.about:
        told[ABOUT] = json.dumps(dict(rest.about), sort_keys=True)
    whole = complete(spec.unflatten(flat_D), rest)
    told[CHECK] = checksum_of(whole, told)
    save_arrays(path, whole, told, private=private)


def complete(trained: dict[str, Vector], rest: Rest) -> dict[str, npt.NDArray[Any]]:
    """Returns all tensors of a checkpoint."""
    tied = {name: trained[first] for name, first in rest.tied.items()}
    return {**rest.frozen, **trained, **tied}


def load_rest(path: Path) -> Rest:
    """Reads what a file of this program holds beside the trained tensors.

    In another program's checkpoint all tensors are trained.

    Raises:
        ModelError: the file is missing or damaged.
    """
    with _opened(path) as file:
        metadata = file.metadata() or {}
        if SPEC not in metadata:
            return NO_REST
        tied: dict[str, str] = json.loads(metadata.get(TIED, "{}"))
        spec = ParamSpec.from_json(metadata[SPEC])
        others = {*file.keys()} - {tensor.name for tensor in spec.tensors} - {*tied}
        frozen = {name: file.get_tensor(name) for name in sorted(others)}
        return Rest(frozen, tied, json.loads(metadata.get(ABOUT, "{}")))


def load_version(path: Path) -> int:
    """Returns the version that a model file says it holds; 0 where it says none.

    Raises:
        ModelError: the file is missing or damaged.
    """
    with _opened(path) as file:
        said = (file.metadata() or {}).get(VERSION, "")
    is_number = said.isdecimal() and len(said) < len(str(2**63))
    return int(said) if is_number else 0


def load_model(path: Path) -> tuple[ParamSpec, Vector]:
    """Reads a model from any safetensors checkpoint.

    A file of this program keeps its order of tensors; in any other, the order of the
    file counts.

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
