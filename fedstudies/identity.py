"""One digest of all that the result of a simulation depends on.

These are the config without the places of its files, the sources of the app and of
the modules in its folder that it imports, the files that the config names, and this
program. The data that the app reads are not included.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedrun.app import load_app
from fedrun.config import FederationConfig

_WHERE = ("server", "journal", "model", "app")  # sections that alter no result
_PACKAGES = ("fedcore", "fedrun", "fedsim", "fedtorch")
_LIBRARIES = ("latecomer", "numpy", "torch")


def program() -> str:
    """A digest of this program and the libraries that it computes with."""
    files: list[Path] = []
    for package in _PACKAGES:
        root = Path(import_module(package).__path__[0])
        files += sorted(root.rglob("*.py"))
    versions = [f"{name} {_version(name)}" for name in _LIBRARIES]
    return _digest(versions, files)


def sources(app: str, place: Path) -> str:
    """A digest of the app's module, and of the modules that it imports from its folder.

    Args:
        app: ``module:attribute``.
        place: the folder where the app is looked for.
    """
    load_app(app, place)
    where, _, attribute = app.partition(":")
    if where.endswith(".py"):
        path = (place / where).resolve()
    else:
        path = Path(sys.modules[where].__file__ or place)
    beside = set()
    for module in list(sys.modules.values()):
        source = getattr(module, "__file__", None)
        if source and source.endswith(".py"):
            found = Path(source)
            if found.is_relative_to(path.parent) and "site-packages" not in found.parts:
                beside.add(found)
    return _digest([attribute], sorted(beside | {path}))


def identity(config: FederationConfig, code: str, program: str) -> str:
    """The digest of one simulation.

    Args:
        config: its config.
        code: the digest that :func:`sources` returned.
        program: the digest that :func:`program` returned.
    """
    settings = config.model_dump(mode="json", exclude=set(_WHERE))
    words = [json.dumps(settings, sort_keys=True), code, program]
    inputs = sorted({config.model, *_paths(config.simulate.model_dump())})
    stamps = [_stamp(file) for path in inputs for file in _files(path)]
    return _digest([*words, *stamps], [])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _digest(words: Iterable[str], files: Iterable[Path]) -> str:
    found = hashlib.blake2b(digest_size=12)
    for word in words:
        found.update(word.encode() + b"\0")
    for file in files:
        found.update(hashlib.blake2b(file.read_bytes()).digest())
    return found.hexdigest()


def _paths(value: Any) -> Iterable[Path]:
    """The paths in a section."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _paths(inner)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    return [path] if path.is_file() else []


def _stamp(file: Path) -> str:
    """The size and time of a file, which may be too large to read."""
    stat = file.stat()
    return f"{file} {stat.st_size} {stat.st_mtime_ns}"
