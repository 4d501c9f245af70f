"""The file of conditions: its fields, and error messages for its mistakes."""

from datetime import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic import StrictBool as Switch

from fedcore.errors import ConfigError
from fedcore.text import brief
from fedcore.typing import Seconds
from fedrun.config.yaml_text import mapping_of, text_of

_EXAMPLE = "expected HH:MM-HH:MM with two different times, as in 22:00-06:00"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Window(_Section):
    """A part of the day, in the device's local time; it may include midnight."""

    begins: time
    ends: time

    def __contains__(self, now: time) -> bool:
        """Returns whether a time of the day is in the window; the end is excluded."""
        if self.begins < self.ends:
            return self.begins <= now < self.ends
        return now >= self.begins or now < self.ends

    def __str__(self) -> str:
        """Returns the window as it is written in the file."""
        return f"{self.begins:%H:%M}-{self.ends:%H:%M}"


def _window(text: Any) -> Any:
    if not isinstance(text, str):
        raise ValueError(_EXAMPLE)
    first, _, second = text.partition("-")
    try:
        begins, ends = (
            time.fromisoformat(first.strip()),
            time.fromisoformat(second.strip()),
        )
    except ValueError:
        raise ValueError(_EXAMPLE) from None
    if begins == ends or begins.tzinfo or ends.tzinfo:
        raise ValueError(_EXAMPLE)
    return Window(begins=begins, ends=ends)


def _windows(told: Any) -> Any:
    if not isinstance(told, list):
        raise ValueError("expected a list of windows, as in [22:00-06:00]")
    return told


def _number(expected: str) -> BeforeValidator:
    """Returns a validator that refuses booleans, which would be read as 1 or 0."""

    def check(told: Any) -> Any:
        if isinstance(told, bool):
            raise ValueError(f"expected {expected}, got {str(told).lower()}")
        return told

    return BeforeValidator(check)


Share = Annotated[float | None, _number("a share above 0 and up to 1, as in 0.3")]


class Command(_Section):
    """A user's command; the condition holds if it exits with 0."""

    command: tuple[str, ...] = Field(min_length=1)


class Conditions(_Section):
    """The conditions for beginning a task; an absent condition is not checked."""

    idle: Share = Field(None, gt=0, le=1)
    """The share of all cores that other processes use is below this."""
    charging: Switch = False
    """The device is on mains power."""
    battery: Share = Field(None, gt=0, le=1)
    """The battery has at least this share of its charge; one without it holds."""
    unmetered: Switch | Command = False
    """The network is not billed by the byte."""
    hours: Annotated[
        tuple[Annotated[Window, BeforeValidator(_window)], ...],
        BeforeValidator(_windows),
    ] = ()
    """Local times, such as 22:00-06:00."""
    look_every: Annotated[Seconds, _number("seconds, as in 60")] = Field(
        60.0, ge=1, le=3600
    )
    """Seconds between two checks while a condition does not hold."""

    @property
    def are_any(self) -> bool:
        """Whether there are any conditions."""
        asks = self.idle, self.battery, self.charging, self.unmetered, self.hours
        return any(asks)


def read_conditions(path: Path) -> Conditions:
    """Reads a file of conditions.

    Raises:
        ConfigError: the file cannot be read, or is not valid.
    """
    told = mapping_of(text_of(path), str(path), "conditions, such as charging: true")
    known = ", ".join(Conditions.model_fields)
    try:
        read = Conditions.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        name = brief(".".join(str(part) for part in first["loc"] if part != "bool"))
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            text = f"unknown condition {name!r}; there are: {known}"
            raise ConfigError(f"{path}: {text}") from error
        said = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{path}: {name}: {brief(said)}") from error
    if not read.are_any:
        raise ConfigError(f"{path}: no condition is set; there are: {known}")
    return read
