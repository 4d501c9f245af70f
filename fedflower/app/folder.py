"""A Flower app's folder: its pyproject.toml, and the two apps that this file names.

The name of such an app is ``flower:FOLDER``. The part after a question mark replaces
values of ``tool.flwr.app.config``: ``flower:FOLDER?learning-rate=0.1&local-epochs=2``.
"""

import importlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from urllib.parse import quote, unquote

from fedcore.errors import ConfigError, WorkloadError
from fedcore.text import brief
from fedflower.app.library import flwr
from fedrun.json_text import require_shallow
from fedrun.plain_files import read_plain
from fedrun.user_files import why_not_imported

PREFIX = "flower:"
# The files that Flower's build leaves out at the top of an app's folder, and anywhere
# in it; hidden folders, such as those of version control and caches, are left out as
# well.
_ENVIRONMENTS = frozenset({"env", "venv", "ENV", "env.bak", "venv.bak"})
NOT_AT_TOP = _ENVIRONMENTS | {"build", "eggs", "lib", "lib64", "parts"}
NOT_ANYWHERE = frozenset({"__pycache__", "node_modules", "site-packages"})
NODES = 10  # if the folder does not say how many SuperNodes it simulates
PAIR = re.compile(r"(\S+?)=(\"[^\"]*\"|'[^']*'|\S+)")
Value = bool | int | float | str
UserConfig = dict[str, Value]


@dataclass(frozen=True)
class FlowerFolder:
    """The content of a Flower app's pyproject.toml.

    Attributes:
        path: the folder, absolute.
        name: the name of the project.
        client: the place of the ClientApp, ``module:attribute``.
        server: the place of the ServerApp; empty if the folder names none.
        config: the content of ``Context.run_config``, with keys like ``a.b``.
        nodes: the number of SuperNodes of a simulation.
    """

    path: Path
    name: str
    client: str
    server: str
    config: Mapping[str, Value]
    nodes: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a folder.

        Raises:
            WorkloadError: it is no folder of a Flower app; the message says why.
        """
        file = path / "pyproject.toml"
        if not file.is_file():
            raise WorkloadError(
                f"{path}: no Flower app: it has no pyproject.toml with "
                "[tool.flwr.app.components]"
            )
        try:
            whole = _toml(read_plain(file).decode())
        except OSError as error:
            raise WorkloadError(f"{file}: {error.strerror}") from error
        except ValueError as error:
            raise WorkloadError(f"{file}: no TOML: {brief(str(error))}") from error
        app = _table(whole, "tool", "flwr", "app")
        parts = _table(app, "components")
        client = parts.get("clientapp")
        if not _is_reference(client):
            raise WorkloadError(
                f"{file}: no Flower app: [tool.flwr.app.components] has no "
                'clientapp = "module:attribute"'
            )
        server = parts.get("serverapp", "")
        if server and not _is_reference(server):
            raise WorkloadError(
                f'{file}: serverapp: expected "module:attribute", got {server!r}'
            )
        return cls(
            path.resolve(),
            str(_table(whole, "project").get("name", path.resolve().name)),
            str(client),
            str(server),
            flat_config(_table(app, "config"), str(file)),
            _nodes(_table(whole, "tool", "flwr", "federations")),
        )

    def load(self, reference: str, kind: str) -> Any:
        """Imports an app of the folder.

        Args:
            reference: the place of the app, ``module:attribute``.
            kind: ``ClientApp`` or ``ServerApp``.

        Raises:
            WorkloadError: it cannot be imported, or is something else.
            ConfigError: flwr is not installed, or too old.
        """
        where, _, attribute = reference.partition(":")
        wanted = getattr(flwr(f"flwr.{kind.lower()}"), kind)
        module = self._module(where)
        found = getattr(module, attribute, None)
        if not isinstance(found, wanted):
            what = "does not exist" if found is None else f"is no {kind}"
            raise WorkloadError(f"{self.path}: {where}:{attribute} {what}")
        return found

    def _module(self, where: str) -> ModuleType:
        root, package = str(self.path), where.partition(".")[0]
        if sys.path[:1] != [root]:
            sys.path[:] = [root, *(each for each in sys.path if each != root)]
        self._forget_others(package)
        importlib.invalidate_caches()
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise WorkloadError(
                f"{self.path}: {where} cannot be imported: {error}; install what the "
                "app's pyproject.toml lists under dependencies"
            ) from error
        except BaseException as error:
            raise WorkloadError(
                f"{self.path}: {where} cannot be imported: {why_not_imported(error)}"
            ) from error

    def _forget_others(self, package: str) -> None:
        """Forgets modules of the same name that another folder has."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] != package:
                continue
            file = getattr(module, "__file__", None)
            if file and not Path(file).resolve().is_relative_to(self.path):
                del sys.modules[name]

    def forget(self) -> None:
        """Forgets the modules imported from the folder, so that they load anew."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            path = Path(file).resolve() if file else None
            if path is None or not path.is_relative_to(self.path):
                continue
            if is_own(path.relative_to(self.path)):
                del sys.modules[name]

    def digest(self) -> str:
        """Returns a digest of the app's code and settings."""
        found = sha256()
        files = [self.path / "pyproject.toml", *self._sources()]
        for file in filter(Path.is_file, files):
            found.update(str(file.relative_to(self.path)).encode() + b"\0")
            found.update(file.read_bytes() + b"\0")
        return found.hexdigest()[:16]

    def _sources(self) -> list[Path]:
        found: list[Path] = []
        for where, folders, files in os.walk(self.path):
            here = Path(where).relative_to(self.path)
            folders[:] = [name for name in folders if is_own(here / name / "any.py")]
            found += [
                Path(where, name)
                for name in files
                if name.endswith(".py") and is_own(here / name)
            ]
        return sorted(found)


def app_name(folder: str, run_config: Iterable[str] = ()) -> str:
    """Returns the name of a Flower app.

    Args:
        folder: the app's folder.
        run_config: values that replace those of its pyproject.toml, in Flower's form:
            ``"a=1 b=2"``, or a TOML file.

    Raises:
        ConfigError: one of them is neither.
    """
    values: UserConfig = {}
    for each in run_config:
        values |= read_config(each, "--run-config")
    query = "&".join(f"{key}={quote(_spelt(value))}" for key, value in values.items())
    return f"{PREFIX}{folder}" + (f"?{query}" if query else "")


def node_items(node_config: Iterable[str]) -> list[str]:
    """Returns the items of ``--node-config`` in the form of ``--data``: ``key=value``.

    Args:
        node_config: the items in Flower's form: ``"a=1 b=2"``, or a TOML file.

    Raises:
        ConfigError: one of them has another form.
    """
    values: UserConfig = {}
    for each in node_config:
        values |= read_config(each, "--node-config")
    return [f"{key}={_spelt(value)}" for key, value in values.items()]


def code_hash(name: str, folder: Path | None = None) -> str:
    """Returns a digest of the code of the Flower app that has this name.

    Args:
        name: ``flower:FOLDER``.
        folder: to which a relative one belongs; the working folder by default.
    """
    path, _ = parse_name(name, folder or Path.cwd())
    return FlowerFolder.read(path).digest()


def parse_name(name: str, folder: Path) -> tuple[Path, UserConfig]:
    """Splits the name of a Flower app into its folder and its replaced values.

    Args:
        name: ``flower:FOLDER?key=value&key=value``.
        folder: the folder to which a relative one belongs.

    Raises:
        ConfigError: a value is not ``key=value``.
    """
    where, _, query = name.removeprefix(PREFIX).partition("?")
    if not where:
        raise WorkloadError(f"app {name!r}: expected flower:FOLDER")
    values: UserConfig = {}
    for item in query.split("&") if query else []:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise ConfigError(f"app {name!r}: {item!r}: expected key=value")
        values[unquote(key)] = scalar(unquote(value))
    return (folder / where).resolve(), values


def read_config(text: str, option: str) -> UserConfig:
    """Reads values in the form of Flower's commands: ``"a=1 b='two'"``, or a TOML file.

    Raises:
        ConfigError: the text has another form.
    """
    if text.endswith(".toml") and "=" not in text:
        try:
            values = _toml(read_plain(Path(text)).decode())
        except OSError as error:
            raise ConfigError(f"{option} {text}: {error.strerror}") from error
        except ValueError as error:
            why = brief(str(error))
            raise ConfigError(f"{option} {text}: no TOML: {why}") from error
        return flat_config(values, text)
    pairs = PAIR.findall(text)
    if not pairs or PAIR.sub("", text).strip():
        raise ConfigError(f'{option} {text!r}: expected "key=value key=value"')
    return {key: scalar(value) for key, value in pairs}


def _toml(text: str) -> dict[str, Any]:
    """Reads TOML.

    Raises:
        ValueError: the text is not TOML, or is nested too deeply.
    """
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError("too many tables and lists in each other") from None
    require_shallow(found)
    return found


def scalar(text: str) -> Value:
    """Returns a value as TOML reads it; anything else is a text."""
    try:
        value = _toml(f"v = {text}")["v"]
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def flat_config(values: Mapping[str, Any], where: str, start: str = "") -> UserConfig:
    """Returns nested tables as one, with keys like ``a.b``.

    Raises:
        WorkloadError: a value is no number, text or bool.
    """
    flat: UserConfig = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flat_config(value, where, f"{start}{key}.")
        elif isinstance(value, bool | int | float | str):
            flat[start + key] = value
        else:
            raise WorkloadError(
                f"{where}: tool.flwr.app.config.{start}{key}: expected a number, a "
                f"text, true or false, got {type(value).__name__}"
            )
    return flat


def is_own(file: Path) -> bool:
    """Returns whether a file is app code, and not of its tests, libraries or caches.

    Args:
        file: its path from the app's folder.
    """
    folders, name = file.parts[:-1], file.name
    if folders and folders[0] in NOT_AT_TOP:
        return False
    if name.startswith("test_") or name.endswith("_test.py"):
        return False
    return not any(
        each.startswith(".") or each.endswith(".egg") or each in NOT_ANYWHERE
        for each in folders
    )


def _spelt(value: Value) -> str:
    """Returns a value in TOML's spelling."""
    if isinstance(value, bool):
        return str(value).lower()
    # TOML knows the escapes of JSON
    is_text = isinstance(value, str)
    return json.dumps(value, ensure_ascii=False) if is_text else repr(value)


def _table(whole: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        whole = whole.get(name, {})
        if not isinstance(whole, dict):
            return {}
    return whole


def _is_reference(text: object) -> bool:
    return all(str(text or "").partition(":")[::2])


def _nodes(federations: Mapping[str, Any]) -> int:
    """Returns the number of SuperNodes that the default federation simulates."""
    usual = _table(federations, str(federations.get("default", "")))
    count = _table(usual, "options").get("num-supernodes", NODES)
    return count if isinstance(count, int) and count > 0 else NODES
