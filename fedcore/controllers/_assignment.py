"""Assignments that controllers give a client's next task, alone and together."""

from math import inf, prod
from typing import NamedTuple

from fedcore.errors import ConfigError


class Assignment(NamedTuple):
    """Sets a client's next task, mostly by shares of the usual amounts."""

    work: float = 1.0
    """Share of the local steps."""
    density: float = 1.0
    """Share of the size of the message, where the uplink has shorter ones."""
    samples: int | None = None
    """How many samples the local steps use, instead of the usual number, before
    ``work`` takes its share; None: the usual number."""


USUAL = Assignment()


def require_possible(kind: str, given: Assignment) -> None:
    """Checks what a controller assigned.

    Raises:
        ConfigError: no task can be given that.
    """
    is_possible = (
        0 < given.work < inf
        and 0 < given.density <= 1
        and (given.samples is None or given.samples >= 1)
    )
    if not is_possible:
        raise ConfigError(
            f"controller {kind} assigned {given}: expected work above 0, density above "
            "0 and at most 1, and 1 sample or more"
        )


def join(*given: Assignment) -> Assignment:
    """Returns what several controllers give together."""
    wanted = [each.samples for each in given if each.samples is not None]
    return Assignment(
        prod(each.work for each in given),
        prod(each.density for each in given),
        min(wanted, default=None),
    )
