"""Finds the user's workload: ``module:attribute``, or a folder of a Flower app."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from fedcore.errors import ConfigError, WorkloadError
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedrun.flower import FlowerFolder, is_flower, load_flower, parse_name
from fedrun.user_files import (
    digest_of,
    has_changed,
    import_file,
    imported,
    note,
    why_not_imported,
)


def load_app(name: str, folder: Path | None = None, *, fresh: bool = False) -> Workload:
    """Returns the workload that a name stands for.

    Args:
        name: ``module:attribute``, ``file.py:attribute`` or ``flower:FOLDER``.
        folder: where to look first; the working folder by default.
        fresh: import a file again if it has changed, as in a notebook.

    Raises:
        WorkloadError: no such module or attribute, or it is no workload; the message
            lists the workloads that the module has.
    """
    if is_flower(name):
        return load_flower(name, folder, fresh=fresh)
    where, _, attribute = name.partition(":")
    if not where or not attribute:
        raise WorkloadError(
            f"app {name!r}: expected module:attribute, file.py:attribute or "
            "flower:FOLDER"
        )
    module = _module(where, folder or Path.cwd(), fresh=fresh)
    found = getattr(module, attribute, None)
    if isinstance(found, Workload):
        return found
    names = [n for n, value in vars(module).items() if isinstance(value, Workload)]
    have = f"its workloads: {', '.join(names)}" if names else "it has no workload"
    problem = "is not a Workload" if found is not None else "does not exist"
    raise WorkloadError(f"app {name!r}: {attribute!r} {problem}; {have}")


def app_of(
    option: str | None, config: FederationConfig, path: Path | None
) -> tuple[str, Path]:
    """Returns the name of a simulation's app, and the folder where it is looked for.

    That is the working folder for ``--app``, as in ``fedclient``, and the folder of the
    config file for the app that the config names.

    Raises:
        ConfigError: neither names one.
    """
    if option is not None:
        return option, Path.cwd()
    if config.app is None:
        where = "" if path is None else f"{path}: "
        raise ConfigError(
            f"{where}app: is missing; the simulator needs the workload: name it in "
            "the config, or with --app module:attribute"
        )
    return config.app, Path.cwd() if path is None else path.resolve().parent


def code_hash(name: str) -> str:
    """Returns a digest of the module's source, by which changed code is noticed."""
    if is_flower(name):
        path, _ = parse_name(name, Path.cwd())
        return FlowerFolder.read(path).digest()
    source = _module(name.partition(":")[0], Path.cwd()).__file__
    return digest_of(Path(source).read_bytes()) if source else ""


def _module(where: str, folder: Path, *, fresh: bool = False) -> ModuleType:
    try:
        if where.endswith(".py"):
            return _from_file((folder / where).resolve(), fresh=fresh)
        root = folder.resolve()
        if sys.path[:1] != [str(root)]:
            sys.path[:] = [str(root), *(p for p in sys.path if p != str(root))]
        file = root / f"{where.replace('.', '/')}.py"
        known = sys.modules.get(where)
        if known is not None and file.is_file():
            is_other = Path(known.__file__ or "").resolve() != file
            if is_other or (fresh and has_changed(file)):
                del sys.modules[where]  # it is of another folder, or has changed
        if where not in sys.modules:
            same = imported(file)  # as a file of methods
            if same is not None:
                return same
            importlib.invalidate_caches()
            note(file)
        return importlib.import_module(where)
    except WorkloadError:
        raise
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"app {where!r}: {error} (looked in {folder} first)"
        ) from error
    except BaseException as error:
        raise WorkloadError(
            f"app {where!r} cannot be imported: {why_not_imported(error)}"
        ) from error


def _from_file(path: Path, *, fresh: bool) -> ModuleType:
    if not path.is_file():
        raise WorkloadError(f"app {path}: no such file")
    known = imported(path)
    if known is not None and not (fresh and has_changed(path)):
        return known
    return import_file(path, path.read_bytes())
