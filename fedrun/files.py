"""Writes files that are there whole or not at all, and reads them."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import ModelError, SpecMismatchError
from fedcore.merging import PARAMETER, in_moments
from fedcore.model import FlatModel
from fedcore.params import NO_REST, ParamSpec, Rest, place_tensors
from fedcore.typing import Vector
from fedrun.checksums import CHECK, checksum_of
from fedrun.durable import make_folder, sync_file, sync_folder
from fedrun.json_text import read_json
from fedrun.plain_files import replacing
from fedrun.tensor_file import FLOATS, TensorFile, tensor_file, write_tensors

_log = logging.getLogger(__name__)
SPEC, TIED, ABOUT = "latecomer.spec", "latecomer.tied", "latecomer.about"
VERSION = "version"
ROUNDS = {"F16": 2.0**-10, "BF16": 2.0**-7}
"""By how much these types may round a number, as a share of it."""


def save_arrays(
    path: Path,
    arrays: dict[str, npt.NDArray[Any]],
    metadata: dict[str, str],
    *,
    private: bool = True,
) -> None:
    """Writes a safetensors file durably: beside it first, then renamed."""
    make_folder(path.parent)
    with replacing(path, private=private) as temporary:
        write_tensors(temporary, arrays, metadata)
        sync_file(temporary)
    sync_folder(path.parent)


def load_arrays(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Reads the arrays and metadata of a safetensors file.

    Raises:
        ModelError: there is none, or it is damaged.
    """
    with tensor_file(path) as file:
        return {name: file.read(name) for name in file.tensors}, file.metadata


def load_metadata(path: Path) -> dict[str, str]:
    """Reads the metadata of a safetensors file.

    Raises:
        ModelError: there is none, or it is damaged.
    """
    with tensor_file(path) as file:
        return file.metadata


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
    texts = {SPEC: spec.to_json(), **metadata}
    if rest.tied:
        texts[TIED] = json.dumps(dict(rest.tied), sort_keys=True)
    if rest.about:
        texts[ABOUT] = json.dumps(dict(rest.about), sort_keys=True)
    whole = complete(spec.unflatten(flat_D), rest)
    texts[CHECK] = checksum_of(whole, texts)
    save_arrays(path, whole, texts, private=private)


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
    with tensor_file(path) as file:
        if SPEC not in file.metadata:
            return NO_REST
        spec = ParamSpec.from_json(file.metadata[SPEC])
        tied = _texts(file.metadata, TIED)
        names = {tensor.name for tensor in spec.tensors}
        if unknown := {*tied.values()} - names:
            raise ValueError(f"{TIED}: there is no tensor {min(unknown)!a}")
        others = {*file.tensors} - names - {*tied}
        frozen = {name: file.read(name) for name in sorted(others)}
        return Rest(frozen, tied, _texts(file.metadata, ABOUT))


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
    said = load_metadata(path).get(VERSION, "")
    is_number = said.isdecimal() and len(said) < len(str(2**63))
    return int(said) if is_number else 0


def load_model(path: Path) -> tuple[ParamSpec, Vector]:
    """Reads a model from any safetensors checkpoint, of which nothing else is known.

    A file of this program keeps its order of tensors; in any other, the order of the
    file counts.

    Raises:
        ModelError: the file is missing, damaged, or holds no floating-point tensors.
    """
    with tensor_file(path) as file:
        if SPEC in file.metadata:
            spec = ParamSpec.from_json(file.metadata[SPEC])
        else:
            spec = _spec_of(file)
        return spec, _flat(file, spec)


def is_of_another_program(path: Path) -> bool:
    """Returns whether a file does not say in which order its tensors make a model.

    Raises:
        ModelError: the file is missing or damaged.
    """
    return SPEC not in load_metadata(path)


class Loaded(NamedTuple):
    """A model that was read for a workload."""

    flat_D: Vector
    changes: tuple[str, ...]
    """What was done to the file's values on the way, in words."""
    is_own: bool
    """Whether a server can begin with the file as it is."""


def load_model_for(
    spec: ParamSpec, path: Path, rest: Rest | None = None, whose: str = ""
) -> Loaded:
    """Reads the tensors of a model, by their names, from any safetensors checkpoint.

    Their order in the file does not matter; float16, bfloat16 and float64 become
    float32.

    Args:
        spec: of the model.
        path: the file.
        rest: what a checkpoint of the model holds beside it; None: unknown, so that
            the file may hold anything else.
        whose: the model, for messages; empty: that of the federation.

    Raises:
        ModelError: the file is missing or damaged.
        SpecMismatchError: it is of another model; the message names the first tensor
            that differs.
    """
    with tensor_file(path) as file:
        theirs = None
        if SPEC in file.metadata:
            theirs = ParamSpec.from_json(file.metadata[SPEC])
        names = _names_in(file, spec, rest or NO_REST)
        difference = _difference(file, spec, names, rest)
        difference = difference or _frozen_difference(file, spec, theirs, rest)
        if difference:
            whose = whose or "the federation's model"
            raise SpecMismatchError(f"{path} and {whose} differ: {difference}")
        flat_D = _flat(file, spec, names)
        is_own = theirs is not None and spec.first_difference(theirs) is None
        return Loaded(flat_D, _changes(file, spec, names), is_own)


def warm_start(model: FlatModel, path: Path) -> Vector:
    """Reads version 0 of a workload's model from any safetensors checkpoint.

    Says in the log what is done to its values.

    Raises:
        ModelError: the file is missing or damaged.
        SpecMismatchError: it is of another model.
    """
    loaded = load_model_for(model.spec, path, model.rest())
    if loaded.changes:
        _log.warning("%s: %s", path, "; ".join(loaded.changes))
    return loaded.flat_D


def _spec_of(file: TensorFile) -> ParamSpec:
    """Returns the spec of all tensors of a file, in its order."""
    if not file.tensors:
        raise ModelError(f"{file.path}: there are no tensors in it")
    for name, stored in file.tensors.items():
        if stored.dtype not in FLOATS:
            raise ModelError(
                f"{file.path}: tensor {name!r} has dtype {stored.dtype}; only "
                "floating-point tensors are trained"
            )
    shapes = ((name, stored.shape, PARAMETER) for name, stored in file.tensors.items())
    return ParamSpec(place_tensors(shapes))


def _flat(
    file: TensorFile, spec: ParamSpec, names: Mapping[str, str] = MappingProxyType({})
) -> Vector:
    """Returns the flat vector of a file's tensors.

    Args:
        file: holds all of them.
        spec: of the vector.
        names: under which the file has them, where these are others.
    """
    flat_D = np.empty(spec.dim, np.float32)
    for tensor in spec.tensors:
        name = names.get(tensor.name, tensor.name)
        if name not in file.tensors:
            raise ModelError(f"{file.path}: tensor {name!r} is missing")
        file.read_into(name, flat_D[tensor.slice])
    in_moments(flat_D, spec.moments)
    return flat_D


def _names_in(file: TensorFile, spec: ParamSpec, rest: Rest) -> dict[str, str]:
    """Returns a file's names of a model's tensors, where the file has them.

    Of a tied tensor that may be its second name.
    """
    names = {each.name: each.name for each in spec.tensors if each.name in file.tensors}
    for second, name in rest.tied.items():
        if second in file.tensors:
            names.setdefault(name, second)
    return names


def _difference(
    file: TensorFile, spec: ParamSpec, names: Mapping[str, str], rest: Rest | None
) -> str:
    """Returns the first difference between a file and a model, as a sentence, or ""."""
    known = {each.name for each in (*spec.tensors, *spec.local)}
    if rest is not None:
        known |= {*rest.frozen, *rest.tied}
    others = [name for name in file.tensors if name not in known]
    for each in spec.tensors:
        if each.name not in names:
            if others:
                return f"expected tensor {each.name!r}, found {others[0]!r}"
            return f"tensor {each.name!r} is missing"
        stored = file.tensors[names[each.name]]
        if stored.shape != each.shape:
            return (
                f"tensor {each.name!r} should have shape {list(each.shape)}, "
                f"has {list(stored.shape)}"
            )
        if stored.dtype not in FLOATS:
            return (
                f"tensor {each.name!r} should hold floating-point numbers, "
                f"holds {stored.dtype}"
            )
    if rest is None:
        return ""
    if others:
        return f"tensor {others[0]!r} is not in the model"
    for second, first in rest.tied.items():
        if {second, first} <= {*file.tensors} and not _equal(file, second, first):
            return f"tensors {first!r} and {second!r} are one in the model"
    return ""


def _frozen_difference(
    file: TensorFile, spec: ParamSpec, theirs: ParamSpec | None, rest: Rest | None
) -> str:
    """Returns the first tensor that is not trained and differs; empty: none does.

    A file of this program tells digests of those that it does not hold.
    """
    digests = {} if theirs is None else dict(theirs.digests)
    frozen = NO_REST.frozen if rest is None else rest.frozen
    for name, digest in spec.digests:
        expected = digests.get(name)
        if not (
            expected == digest if expected else _is_same(file, name, frozen.get(name))
        ):
            return f"tensor {name!r} is not trained, and has other values in the model"
    return ""


def _equal(file: TensorFile, one: str, other: str) -> bool:
    return np.array_equal(file.read(one), file.read(other), equal_nan=True)


def _is_same(file: TensorFile, name: str, expected: Any) -> bool:
    """Returns whether a file has these values, as far as its type can tell."""
    if expected is None or name not in file.tensors:
        return True
    if file.tensors[name].shape != np.shape(expected):
        return False
    found, rounds = file.read(name), ROUNDS.get(file.tensors[name].dtype, 0.0)
    return bool(np.allclose(found, expected, rtol=rounds, atol=0.0, equal_nan=True))


def _changes(
    file: TensorFile, spec: ParamSpec, names: Mapping[str, str]
) -> tuple[str, ...]:
    """Describes the changes that make a model of a file's values."""
    kinds = {file.tensors[names[each.name]].dtype: None for each in spec.tensors}
    changes = [f"{FLOATS[kind]} becomes float32" for kind in kinds if kind != "F32"]
    local = [each.name for each in spec.local if each.name in file.tensors]
    if local:
        changes.append(f"{', '.join(local)} stay on the clients, and are not read")
    return tuple(changes)
