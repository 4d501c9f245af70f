"""Settings that a client chooses itself, if the federation lets it."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import override
from fedcore.errors import ConfigError
from fedrun.config.load import read_setting


def read_choices(items: Sequence[str]) -> dict[str, Any]:
    """Returns the settings that ``--choose`` names, such as ``batch=8``.

    Raises:
        ConfigError: an item is not a setting with a value in YAML.
    """
    example = "setting=value, as in batch=8"
    return dict(read_setting("--choose", item, example) for item in items)


def with_choices(
    config: AlgorithmConfig, choices: Mapping[str, Any]
) -> AlgorithmConfig:
    """Returns the algorithm with the settings that this client has chosen.

    Args:
        config: the server's config of the algorithm.
        choices: values by the name of a setting of the client algorithm.

    Raises:
        ConfigError: the federation does not leave one of them to its clients, or the
            algorithm does not allow it.
    """
    free = config.client.may_choose
    for name in choices:
        if name not in free:
            allowed = f"{', '.join(free)} alone" if free else "nothing"
            raise ConfigError(
                f"--choose {name}: this federation lets the client choose {allowed} "
                "(algorithm.client.may_choose)"
            )
    if not choices:
        return config
    try:
        own = config.for_client(override(config.client, choices, ()))
        own.require_fit()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or ", ".join(choices)
        raise ConfigError(f"--choose {name}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"--choose {', '.join(choices)}: {error}") from error
    return own
