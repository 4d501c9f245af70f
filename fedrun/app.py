"""Finds the user's workload: ``module:attribute``, or an app of another framework."""

import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from fedcore.errors import ConfigError, WorkloadError
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedrun.user_files import (
    digest_of,
    find_imported,
    has_changed,
    import_file,
    note,
    why_not_imported,
)

# Frameworks whose apps are workloads, by what their names begin with. They stand above
# this package, and are imported when an app asks for them.
FRAMEWORKS = {"flower": "fedflower.app"}


class Framework(Protocol):
    """Apps of another framework, each named ``framework:FOLDER``."""

    def load_app(
        self, name: str, folder: Path | None = None, *, fresh: bool = False
    ) -> Workload:
        """Returns the workload of an app; ``folder`` is where a relative one is."""
        ...

    def code_hash(self, name: str, folder: Path | None = None) -> str:
        """Returns a digest of the app's code; ``folder`` is where a relative one is."""
        ...

    def federation_of(self, name: str) -> tuple[dict[str, Any], Path]:
        """Returns the config of a federation, as plain data, and the app's folder."""
        ...

    def app_name(self, folder: str, run_config: Sequence[str] = ()) -> str:
        """Returns the name of the app in a folder, with other values of its config."""
        ...

    def node_items(self, node_config: Sequence[str]) -> Iterable[str]:
        """Returns the values of a node's config, each as ``key=value``."""
        ...


def framework(kind: str) -> Framework:
    """Returns a framework by the word that its apps' names begin with."""
    return importlib.import_module(FRAMEWORKS[kind])


def framework_of(name: str) -> Framework | None:
    """Returns the framework of an app of this name; None: it is of no other."""
    kind = name.partition(":")[0]
    return framework(kind) if kind in FRAMEWORKS else None


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
    if (other := framework_of(name)) is not None:
        return other.load_app(name, folder, fresh=fresh)
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
    if (other := framework_of(name)) is not None:
        return other.code_hash(name)
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
            same = find_imported(file)  # as a file of methods
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
    known = find_imported(path)
    if known is not None and not (fresh and has_changed(path)):
        return known
    return import_file(path, path.read_bytes())
