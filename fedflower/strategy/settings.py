"""The settings of a strategy, in the form of a federation's config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.algorithm import Algorithm, AlgorithmConfig
from fedcore.clients import SGDConfig
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedrun.config import FederationConfig, load_config, parse_config

Settings = Mapping[str, Any] | str | Path | None
EXACT = {"kind": "identity"}


def read_settings(
    settings: Settings, recipe: Mapping[str, Any], seed: int | None
) -> FederationConfig:
    """Returns the config of a federation.

    Args:
        settings: a file with such a config, or the section ``algorithm`` as a mapping.
        recipe: settings of the recipe by name; they replace those of ``settings``.
        seed: the seed of all random numbers; None for the file's seed, or 0.

    Raises:
        ConfigError: one line for each mistake.
    """
    if isinstance(settings, str | Path):
        config = load_config(Path(settings))
        raw = config.model_dump(mode="json", exclude_unset=True)
    else:
        raw = {"algorithm": dict(settings or {})}
    raw.setdefault("algorithm", {}).setdefault("kind", "latecomer")
    raw["algorithm"].update(recipe)
    if seed is not None:
        raw["seed"] = seed
    return parse_config(raw, "Latecomer(...)")


def build(config: AlgorithmConfig, spec: ParamSpec) -> Algorithm:
    """Returns the algorithm for clients that train by code of their own.

    Raises:
        ConfigError: it requires something that a ClientApp does not do.
    """
    algorithm = config.build(spec)
    for client in algorithm.clients.all:
        if not (isinstance(client, SGDConfig) and client.is_plain):
            raise ConfigError(
                f"algorithm.client: {client.kind} with these settings prescribes how a "
                "client trains, and a Flower ClientApp trains by code of its own; "
                "give client={'kind': 'local_sgd'}, without momentum and weight decay"
            )
    kinds = [controller.kind for controller in config.controllers]
    if kinds:
        raise ConfigError(
            f"algorithm.controllers: {', '.join(kinds)} looks at devices, which Flower "
            "does not tell; leave it out"
        )
    return algorithm
