"""The settings of a replay, and the clients that it leaves out."""

from collections.abc import Collection
from copy import deepcopy
from typing import Any

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.events import Enrolled
from fedcore.errors import ConfigError
from fedrun.config import FederationConfig, parse_config
from fedrun.config.load import change_config
from fedrun.journal import Journal


def newest_config(journal: Journal) -> FederationConfig:
    """Returns the config that a run ended with."""
    return parse_config(journal.configurations()[-1][1].config)


def override_config(
    journal: Journal, changes: Collection[str]
) -> FederationConfig | None:
    """Returns a run's newest config with ``field=value`` changes; None: there are none.

    Without changes a replay follows the configs that the run had, one after the other.
    The config holds every default of its recipe; another recipe begins with its own
    ones.

    Raises:
        ConfigError: there is no such field or value, or the updates do not fit.
    """
    if not changes:
        return None
    told = journal.configurations()[-1][1]
    raw: dict[str, Any] = deepcopy(dict(told.config))
    recorded = parse_config(raw)
    asked: dict[str, Any] = {}
    for change in changes:
        change_config(asked, change)
    match asked:
        case {"algorithm": {"kind": kind}} if kind != raw["algorithm"]["kind"]:
            raw = {**raw, "algorithm": {}}
    for change in changes:
        change_config(raw, change)
    config = parse_config(raw, changes=changes)
    _require_same_companions(recorded.algorithm, config.algorithm)
    return config


def _require_same_companions(was: AlgorithmConfig, other: AlgorithmConfig) -> None:
    """Checks that updates of both recipes hold the same vectors."""
    if was.client.vectors != other.client.vectors:
        raise ConfigError(
            f"algorithm.client: a run of {was.client.kind} cannot be replayed with "
            f"{other.client.kind}: other vectors travel beside the model, or other "
            "models in its place"
        )
    for aggregator in (was.aggregator, other.aggregator):
        if was.aggregator != other.aggregator and aggregator.multiplies:
            raise ConfigError(
                f"algorithm.aggregator: a run of {was.aggregator.kind} cannot be "
                f"replayed with {other.aggregator.kind}: clients multiply updates "
                f"for {aggregator.kind}"
            )


def trainers(journal: Journal) -> list[str]:
    """Returns the names of the clients that could send updates, in their order."""
    return [name for name, role in _roles(journal).items() if role == "trainer"]


def require_trainers(journal: Journal, without: Collection[str]) -> None:
    """Checks that the clients that are left out took part.

    Raises:
        ConfigError: one of them is unknown, or sends no updates.
    """
    roles = _roles(journal)
    unknown = sorted(set(without) - set(roles))
    known = ", ".join(trainers(journal)) or "none"
    if unknown:
        raise ConfigError(
            f"--without {', '.join(unknown)}: no such client; there are {known}"
        )
    others = sorted(name for name in without if roles[name] != "trainer")
    if others:
        raise ConfigError(
            f"--without {', '.join(others)}: an evaluator sends no updates; the "
            f"clients are {known}"
        )


def _roles(journal: Journal) -> dict[str, str]:
    """Returns each name's last role; a name that ever trained stays a trainer."""
    roles: dict[str, str] = {}
    for entry in journal.store.find(Enrolled.__name__):
        record = entry.record
        assert isinstance(record, Enrolled)
        if roles.get(record.name) != "trainer":
            roles[record.name] = record.role
    return roles
