"""Writes files that are there whole or not at all, and reads them."""

import contextlib
import errno
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fedcore.errors import ModelError
from fedcore.params import NO_REST, ParamSpec, Rest
from fedcore.text import brief
from fedcore.typing import Vector
from fedrun.checksums import CHECK, checksum_of
from fedrun.durable import make_folder, sync_file, sync_folder
from fedrun.json_text import read_json
from fedrun.plain_files import memory, replacing, require_regular, require_size

SPEC, TIED, ABOUT = "latecomer.spec", "latecomer.tied", "latecomer.about"
VERSION = "version"


def save_arrays(
    path: Path,
    arrays: dict[str, npt.NDArray[Any]],
    metadata: dict[str, str],
    *,
    private: bool = True,
) -> None:
    """Writes a safetensors file durably: beside it first, then renamed."""
    make_folder(path.parent)
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        with replacing(path, private=private) as temporary:
            save_file(contiguous, temporary, metadata)
            sync_file(temporary)
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    sync_folder(path.parent)


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
        require_size(path, require_regular(path).st_size, memory())
        with safe_open(path, "np") as file:
            yield file
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from error
    except (SafetensorError, TypeError, ValueError) as error:
        text = brief(str(error))
        raise ModelError(f"{path}: not a safetensors file: {text}") from error


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
        spec, tied = ParamSpec.from_json(metadata[SPEC]), _texts(metadata, TIED)
        names = {tensor.name for tensor in spec.tensors}
        if unknown := {*tied.values()} - names:
            raise ValueError(f"{TIED}: there is no tensor {min(unknown)!a}")
        others = {*file.keys()} - names - {*tied}
        frozen = {name: file.get_tensor(name) for name in sorted(others)}
        return Rest(frozen, tied, _texts(metadata, ABOUT))


def _texts(metadata: Mapping[str, str], key: str) -> dict[str, str]:
    """Returns texts by name, as JSON in the metadata of a file tells them.

    Raises:
        ValueError: it tells something else.
    """
    found = read_json(metadata.get(key, "{}"))
    if not isinstance(found, dict) or any(
        type(each) is not str for each in found.values()
    ):
        raise ValueError(f"{key}: expected texts by name")
    return found


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
