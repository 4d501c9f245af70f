"""Imports a file of the user's, and notices when it has changed."""

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from fedcore.user_code import describe_error, describe_exit, require_users

PREFIX = "_latecomer_app_"  # of the names of modules that were files
_DIGESTS: dict[Path, str] = {}  # of files, when they were imported


def digest_of(source: bytes) -> str:
    """Returns the first 16 digits of the SHA-256."""
    return hashlib.sha256(source).hexdigest()[:16]


def note(file: Path) -> None:
    """Remembers the digest of a file that is imported now."""
    if file.is_file():
        _DIGESTS[file] = digest_of(file.read_bytes())


def has_changed(file: Path) -> bool:
    """Returns whether a file differs from what was imported."""
    now = digest_of(file.read_bytes())
    return _DIGESTS.setdefault(file, now) != now


def module_name(path: Path) -> str:
    """Returns the name of the module that a file becomes.

    Args:
        path: of the file, absolute; files of one name in two folders differ.
    """
    return f"{PREFIX}{path.stem}_{digest_of(str(path).encode())}"


def find_imported(path: Path, digest: str | None = None) -> ModuleType | None:
    """Returns the module that was made of a file, if any.

    Args:
        path: of the file, absolute.
        digest: of the source; None: any.
    """
    known = sys.modules.get(module_name(path))
    if known is None or known.__file__ != str(path):
        return None
    return known if digest in (None, _DIGESTS.get(path)) else None


def why_not_imported(error: BaseException) -> str:
    """Returns why the user's code cannot be imported, in words.

    Args:
        error: what importing it raised.

    Raises:
        BaseException: the error, if a person interrupts the process.
    """
    require_users(error)
    if isinstance(error, SystemExit):
        return (
            f"it {describe_exit(error)}; put what reads the command line or ends a "
            'script under if __name__ == "__main__":'
        )
    return describe_error(error)


def import_file(path: Path, source: bytes) -> ModuleType:
    """Runs the source as a module; another process can do so without the file.

    Args:
        path: of the file, absolute; its folder joins the path of modules.
        source: what is in it.
    """
    name = module_name(path)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    module = module_from_spec(spec)
    _DIGESTS[path] = digest_of(source)
    before = sys.modules.get(name)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]  # it is only half loaded
        if before is not None:
            sys.modules[name] = before
        raise
    return module
