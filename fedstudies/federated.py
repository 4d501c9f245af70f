"""Settings of the studies of one federation: its app, and changes of its config."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from fedcore.config import Count
from fedcore.errors import ConfigError
from fedcore.text import brief
from fedcore.workload import Workload
from fedrun.app import app_of, load_app
from fedrun.cli.command import key_and_value
from fedrun.config import FederationConfig, load_config
from fedrun.config.load import config_in
from fedsim.api import free_folder
from fedsim.cli.options import FEDERATION
from fedstudies.frame import Found, Option, Study
from fedstudies.processes import usual_jobs

CONFIG = Option(is_argument=True, wanted="the path of a YAML file, which names the app")


class Federation(NamedTuple):
    """The federation that is studied."""

    config: FederationConfig
    app: str
    place: Path
    """The folder where the app is looked for."""

    def load(self) -> Workload:
        """Imports the app.

        Raises:
            LatecomerError: it cannot be imported, or is none.
        """
        return load_app(self.app, self.place)


def _changes(option: str, typed: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in typed:
        field, equals, value = text.partition("=")
        if not field or not equals:
            raise ConfigError(
                f"--set {brief(text)}: expected field=value, such as stop.versions=10"
            )
        found.pop(field, None)  # the last one counts, at its place
        found[field] = value
    return found


def _items(option: str, typed: Sequence[str]) -> dict[str, str]:
    found = dict(map(key_and_value, typed))
    for key, value in found.items():
        if "." in key:
            raise ConfigError(f"--data {key}={value}: a key of a simulation has no dot")
    return found


class Federated(Study[Found]):
    """A study of a federation that a config describes."""

    _: KW_ONLY
    app: Annotated[
        str | None, Option(is_own=False, wanted="a text such as 'my_app:workload'")
    ] = None
    """The workload, as ``module:attribute``. Without it, the app that the config
    names."""
    changes: Annotated[
        Mapping[str, Any] | None,
        Option(
            is_own=False,
            also="--set",
            read_all=_changes,
            wanted="values by field, such as {'algorithm.buffer': 8}",
        ),
    ] = None
    """Values by field that replace those of the config."""
    data: Annotated[
        Mapping[str, str] | None,
        Option(is_own=False, read_all=_items, wanted="a mapping such as {'site': 'a'}"),
    ] = None
    """Items that ``train_data`` finds in ``client.args``."""

    decorators: ClassVar = (FEDERATION,)

    def federation(
        self, more: Mapping[str, Any] | None = None, *, needs_app: bool = True
    ) -> Federation:
        """Reads the field ``config``, and finds the app.

        Without a config, all settings have their defaults.

        Args:
            more: values by field that replace those of the config as well.
            needs_app: whether an app must be named.

        Raises:
            ConfigError: a setting is wrong, or no app is named.
        """
        changes = {**(self.changes or {}), **(more or {})}
        given: str | Path | None = vars(self)["config"]
        path = None if given is None else Path(given)
        found = load_config(path, changes) if path else config_in(Path(), {}, changes)
        if self.data:
            args = {**found.simulate.args, **self.data}
            simulate = found.simulate.model_copy(update={"args": args})
            found = found.model_copy(update={"simulate": simulate})
        where = app_of(self.app, found, path) if needs_app else ("", Path())
        return Federation(found, *where)

    def usual_folder(self) -> Path:
        """Returns the next unused folder beside ``server.journal``."""
        return free_folder(self.federation(needs_app=False).config, self.name)


class Simulating(Federated[Found]):
    """A study that simulates a federation many times."""

    _: KW_ONLY
    jobs: Annotated[Count, Option(usual=usual_jobs)] = 1
    """How many processes simulate at a time. The results do not depend on it."""

    keeps: ClassVar = True
