"""Methods of the user's own: from installed packages, and from files that are named.

A package names modules in its entry points of the group ``latecomer.methods``. A file
is imported only if somebody on this machine names it: in the config file
(``methods:``), or on the command line. What a peer sends, and what a run has recorded,
never leads to an import.
"""

import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from fedcore.config import Method, kind_of, methods, two_of_a_kind
from fedcore.errors import ConfigError
from fedrun.user_files import (
    digest_of,
    find_imported,
    import_file,
    module_name,
    why_not_imported,
)

GROUP = "latecomer.methods"  # of entry points


class Source(NamedTuple):
    """A file of methods as it was read; a worker elsewhere can import it from this."""

    path: str
    text: bytes

    @property
    def digest(self) -> str:
        """The beginning of its SHA-256."""
        return digest_of(self.text)


_LOADED: dict[str, Source] = {}  # by path
_INSTALLED: list[str] = []  # names of the packages that were asked
_BROKEN: list[str] = []  # why methods of packages are missing


def load_installed() -> None:
    """Imports the methods of installed packages, once.

    A package that cannot be imported is remembered for the message about a method that
    is missing (:func:`missing`).

    Raises:
        ConfigError: a package names a method as another one is named.
    """
    if _INSTALLED:
        return
    _INSTALLED.append("latecomer")
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist is not None else point.value
        try:
            point.load()
        except BaseException as error:  # noqa: BLE001 -- perhaps not needed
            _BROKEN.append(
                f"the methods of package {package} cannot be imported: "
                f"{why_not_imported(error)}"
            )
        else:
            _INSTALLED.append(package)
            try:
                _refuse_clashes(f"package {package}")
            except ConfigError:
                _INSTALLED.clear()  # the next call says so as well
                _BROKEN.clear()
                raise


def list_packages() -> list[str]:
    """Returns the packages whose methods were imported."""
    return _INSTALLED[1:]


def missing() -> str:
    """Returns what may be why a method is unknown; empty if nothing is known."""
    return "; ".join(_BROKEN)


def load_methods(path: Path) -> Source:
    """Imports a file of methods; again, if it has changed since.

    Raises:
        ConfigError: it cannot be read or imported, it defines no method, or it names
            one as another is named.
    """
    source = _read(path)
    load_source(source)
    return source


def _read(path: Path) -> Source:
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"methods: {path}: {reason}") from error
    return Source(str(path.resolve()), text)


def load_source(source: Source) -> None:
    """Imports a file of methods as it was read, perhaps in another process.

    Raises:
        ConfigError: see :func:`load_methods`.
    """
    if _LOADED.get(source.path) == source:
        return
    path = Path(source.path)
    module = find_imported(path, source.digest)
    before = [m for m in methods(Method) if m.__module__ == module_name(path)]
    if module is None:
        try:
            module = import_file(path, source.text)
        except ConfigError:
            raise
        except BaseException as error:
            raise ConfigError(
                f"methods: {path} cannot be imported: {why_not_imported(error)}"
            ) from error
    own = _methods_in(module)
    if not own:
        raise ConfigError(
            f"methods: {path} defines no method: a subclass of StalenessConfig, "
            'AggregatorConfig or the like with kind: Literal["its_name"]'
        )
    try:
        _refuse_clashes(str(path))
    except ConfigError:
        _withdraw(own)
        raise
    _withdraw(method for method in before if method not in own)
    _LOADED[source.path] = source


def methods_of(source: Source) -> list[type[Method]]:
    """Returns the methods that a file has brought."""
    return _methods_in(sys.modules[module_name(Path(source.path))])


def list_sources() -> tuple[Source, ...]:
    """Returns the files of methods that this process has imported."""
    return tuple(_LOADED.values())


def name_files(raw: Any, folder: Path) -> Any:
    """Imports the files that the field ``methods`` of plain data names.

    Returns:
        The same data, with each file's whole path and digest.

    Raises:
        ConfigError: see :func:`load_methods`; or a digest is given, and the file has
            another.
    """
    if not isinstance(raw, Mapping) or not raw.get("methods"):
        return raw
    given = raw["methods"]
    found = []
    for item in given if isinstance(given, list | tuple) else [given]:
        pinned = item if isinstance(item, Mapping) else {"file": item}
        name = pinned.get("file")
        if not isinstance(name, str | Path):
            return raw  # the config says what is wrong with it
        source = _read(folder / name)
        entry = {"file": source.path, "digest": source.digest}
        if (pinned.get("digest") or source.digest) != source.digest:
            raise ConfigError(
                _describe_change(source.path, str(pinned["digest"]), source)
            )
        load_source(source)  # nothing in a file of another digest is run
        found.append({**pinned, **entry})
    return {**raw, "methods": found}


def require_named(raw: Any) -> None:
    """Checks that the files which a run has recorded were named on this machine.

    Raises:
        ConfigError: one was not.
    """
    for file, digest in _read_recorded(raw):
        if _find_source(file, digest) is None:
            raise ConfigError(
                f"this run uses methods of the file {file} (SHA-256 {digest}...), "
                "which is imported only if you name it: --methods FILE"
            )


def require_same(raw: Any) -> None:
    """Checks that the files are what they were when a run began.

    Raises:
        ConfigError: one was not named, or has changed.
    """
    require_named(raw)
    for file, digest in _read_recorded(raw):
        source = _find_source(file, digest)
        if source is not None and source.digest != digest:
            raise ConfigError(_describe_change(file, digest, source))


def _read_recorded(raw: Any) -> Iterable[tuple[str, str]]:
    given = raw.get("methods") if isinstance(raw, Mapping) else None
    for item in given if isinstance(given, list | tuple) else ():
        if isinstance(item, Mapping) and item.get("digest"):
            yield str(item.get("file")), str(item["digest"])


def _find_source(file: str, digest: str) -> Source | None:
    """Returns the file that was imported with this digest, or else under this name."""
    alike = [s for s in _LOADED.values() if Path(s.path).name == Path(file).name]
    same = [s for s in _LOADED.values() if s.digest == digest]
    return next(iter([*same, *alike]), None)


def _describe_change(file: str, digest: str, now: Source) -> str:
    return (
        f"methods: {file} has changed since this run began: its SHA-256 was "
        f"{digest}..., and that of {now.path} is {now.digest}...; put it back, or "
        "go on with --amend"
    )


def _methods_in(module: ModuleType) -> list[type[Method]]:
    """Returns the methods that a module has, and this project has not."""
    found = vars(module).values()
    return [
        method
        for method in methods(Method)
        if method in found and not method.__module__.startswith("fedcore.")
    ]


def _withdraw(found: Iterable[type[Method]]) -> None:
    for method in found:
        method.is_withdrawn = True


def _refuse_clashes(whose: str) -> None:
    clash = two_of_a_kind(Method)
    if clash is None:
        return
    one, other = clash
    raise ConfigError(
        f"methods: {whose}: two {one.role} methods have the kind {kind_of(one)!r}: "
        f"{_place(one)} and {_place(other)}; give one of them another kind"
    )


def _place(method: type[Method]) -> str:
    return f"{method.__module__}.{method.__qualname__}"
