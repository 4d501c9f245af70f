"""The goal of a plan: a target, and a deadline or a budget."""

import math
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import ConfigError
from fedcore.typing import Seconds

_PART = r"(\d+(?:\.\d+)?)\s*(min|[smhd])\s*"
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


class Target(NamedTuple):
    """A metric and the value that it should reach."""

    metric: str
    value: float

    @property
    def error(self) -> float:
        """The target as an error."""
        return self.error_of(self.value)

    def error_of(self, value: float) -> float:
        """Returns a value as an error: as it is, or 1 minus it where more is better."""
        return value if lower_is_better(self.metric) else 1 - value

    def require(self, measured: Collection[str], where: str) -> None:
        """Checks that a run evaluates the metric.

        Args:
            measured: the metrics that it evaluates.
            where: its name.

        Raises:
            ConfigError: it does not.
        """
        if self.metric not in measured:
            have = ", ".join(measured) or "nothing"
            raise ConfigError(
                f"--target {self}: {where} has no evaluations of {self.metric}; "
                f"measured: {have}"
            )

    def __str__(self) -> str:
        """As it is given on a command line."""
        return f"{self.metric}={self.value:g}"


def read_target(option: str, text: str) -> dict[str, float]:
    """Reads ``accuracy=0.9``.

    Raises:
        ConfigError: it is no metric with a number.
    """
    metric, _, given = text.partition("=")
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not metric or not math.isfinite(value):
        raise ConfigError(
            f"{option} {text}: expected a metric and a number, such as accuracy=0.9"
        )
    return {metric.strip(): value}


def target_of(given: Mapping[str, float]) -> Target:
    """Returns the target that one metric with its value is.

    Raises:
        ConfigError: the value cannot be reached.
    """
    ((metric, value),) = given.items()
    target = Target(metric, value)
    if not target.error > 0:
        below = "above 0" if lower_is_better(target.metric) else "below 1"
        raise ConfigError(f"--target {target}: expected a value {below}")
    return target


def read_duration(option: str, text: str) -> Seconds:
    """Reads ``2h``, ``1h30m`` or a number of seconds.

    Raises:
        ConfigError: it is none of these, or not above 0.
    """
    text = text.strip()
    try:
        if re.fullmatch(f"({_PART})+", text):
            parts = re.findall(_PART, text)
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        else:
            seconds = float(text)
    except ValueError:
        seconds = math.nan
    return above_zero(option, seconds, text)


def above_zero(option: str, seconds: Seconds, shown: object) -> Seconds:
    """Returns a time.

    Raises:
        ConfigError: it is not above 0.
    """
    if not 0 < seconds < math.inf:
        raise ConfigError(
            f"{option} {shown}: expected a time above 0, such as 90s, 30m, 2h or 1h30m"
        )
    return seconds


def check_budget(given: float) -> float:
    """Returns the budget.

    Raises:
        ConfigError: it is not above 0.
    """
    if not 0 < given < math.inf:
        raise ConfigError(f"--budget {given:g}: expected an amount above 0")
    return given
