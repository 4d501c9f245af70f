"""The availability of a population, as the config describes it."""

import math

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedrun.config import SimulateConfig
from fedsim.population.availability import (
    Always,
    Availability,
    Diurnal,
    OnOff,
    Recorded,
)
from fedsim.traces import ClientTrace, read_trace


def availability_of(
    config: SimulateConfig, key: Key, trace: list[ClientTrace] | None, count: int
) -> Availability:
    """Returns the availability of ``count`` devices.

    Args:
        config: the section ``simulate``.
        key: the key of the population.
        trace: the clients of ``simulate.trace``, if there is one.
        count: the number of devices.

    Raises:
        ConfigError: no device is ever available, or a trace cannot be repeated.
    """
    availability = config.availability
    key = key.fold_in("availability", availability.kind)
    if availability.kind == "on_off":
        return OnOff(availability, key, count)
    if availability.kind == "diurnal":
        return Diurnal(availability, key, count)
    file = availability.file or config.trace
    if availability.file is not None:
        trace = read_trace(availability.file)
    if trace is None:
        return Always()
    clients = trace[:count]
    stays = [list(client.stays) for client in clients]
    if not any(stays):
        raise ConfigError(f"{file}: none of its first {count} clients is ever there")
    if not availability.repeat:
        return Recorded(stays)
    period = max(client.end for client in clients)
    if math.isinf(period):
        raise ConfigError(
            f"{file}: availability.repeat needs an end in every client's last row"
        )
    return Recorded(stays, period)
