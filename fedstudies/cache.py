"""A file for each finished run, under the digest of all that its result depends on.

That is the config without the places of its files, the sources of the app and of the
modules in its folder that it imports, the files that the config names, and this
program. The data that the app reads are not included.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedcore import COMPUTING
from fedcore.errors import IMPOSSIBLE, ConfigError
from fedrun.app import framework_of, load_app
from fedrun.config import FederationConfig
from fedrun.json_text import read_json
from fedrun.plain_files import make_own, read_plain, write_text
from fedstudies.trial import Trial

FOLDER = "runs"
INDEX = "sweep.json"  # of a sweep: its points, and the digests of their runs
_KEY = re.compile(r"\w+", re.ASCII)  # of a run: its digest
_WHERE = ("server", "journal", "model", "app")  # sections that alter no result
_LIBRARIES = ("latecomer", "numpy", "torch")


class Cache:
    """The runs in a sweep's folder.

    Args:
        folder: the folder of the sweep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def get(self, key: str, *, whole: bool = False) -> Trial | None:
        """Looks a run up.

        Args:
            key: the digest of the run.
            whole: also require the folder of the run.

        Returns:
            The run, or None if it is not known.
        """
        path = self._path(key)
        if whole and not self.run_folder(key).is_dir():
            return None
        return self.read(key)[1] if path.is_file() else None

    def read(self, key: str) -> tuple[dict[str, Any], Trial]:
        """The config of a finished run, and its result.

        Raises:
            ConfigError: there is no such run, or its file is damaged.
        """
        path = self._path(key)
        try:
            raw = read_json(read_plain(path).decode())
            if not isinstance(raw["config"], dict):
                raise TypeError("its config is no section")
            return raw["config"], Trial.from_json(raw["trial"])
        except (OSError, *IMPOSSIBLE) as error:
            raise ConfigError(
                f"{path}: is not the run of a sweep ({type(error).__name__}); remove "
                "it, and it is simulated again"
            ) from error

    def put(self, key: str, config: dict[str, Any], trial: Trial) -> None:
        """Writes the file of a run. An interruption leaves no part of it."""
        make_own(self.folder)
        text = json.dumps({"config": config, "trial": trial.as_json()}, indent=1)
        write_text(self._path(key), text + "\n")

    def run_folder(self, key: str) -> Path:
        """The path of a run's folder, if that is kept."""
        return self.folder / key

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def read_point(folder: Path, rank: int) -> tuple[str, dict[str, Any], list[Trial]]:
    """Reads a point of a finished sweep.

    Args:
        folder: the folder of the sweep.
        rank: the number of the point in the table, from 1.

    Returns:
        The name of the point, the config of its first run, and its runs.

    Raises:
        ConfigError: there is no such point, or a file is damaged.
    """
    path = folder / INDEX
    try:
        points = read_json(read_plain(path).decode())["points"]
        known = [(str(point["name"]), list(point["runs"].values())) for point in points]
        if not all(_KEY.fullmatch(key) for _, keys in known for key in keys):
            raise ValueError("a run has no name")
    except (OSError, *IMPOSSIBLE) as error:
        raise ConfigError(f"{path}: is not the index of a sweep") from error
    if not 0 < rank <= len(known):
        raise ConfigError(
            f"{folder}:{rank}: the sweep has the points 1 to {len(known)}"
        )
    name, keys = known[rank - 1]
    if not keys:
        raise ConfigError(f"{folder}:{rank}: {name} has no run that ended well")
    runs = [Cache(folder).read(key) for key in keys]
    return name, runs[0][0], [trial for _, trial in runs]


# ------------------------------------------------------------------------- digests


def program() -> str:
    """A digest of this program and the libraries that it computes with."""
    files: list[Path] = []
    for package in COMPUTING:
        root = Path(import_module(package).__path__[0])
        files += sorted(root.rglob("*.py"))
    versions = [f"{name} {_version(name)}" for name in _LIBRARIES]
    return _digest(versions, files)


def sources(app: str, place: Path) -> str:
    """A digest of the app's module, and of the modules that it imports from its folder.

    Args:
        app: ``module:attribute``, or the name of an app of another framework.
        place: the folder where the app is looked for.
    """
    load_app(app, place)
    if (other := framework_of(app)) is not None:
        return _digest([app, other.code_hash(app, place)], [])
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
