"""How long tasks take at least: a device that spares itself, or plays a slower one."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedcore.errors import ConfigError
from fedcore.typing import Seconds


class Pace(NamedTuple):
    """The k-th task takes the k-th of these at least; after the last, the first."""

    seconds: Sequence[Seconds] = (0.0,)

    def of(self, task: int) -> Seconds:
        """Of a task, counted from 0."""
        return self.seconds[task % len(self.seconds)]


AT_ONCE = Pace()


def read_pace(text: str) -> Pace:
    """One number for all tasks, or a file with one a line.

    Raises:
        ConfigError: it is neither, or a line is not a number of at least 0.
    """
    seconds = _seconds(text)
    if seconds is not None:
        return Pace((seconds,))
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--pace {text}: expected seconds of at least 0, or a file with a line of "
            "them for each task"
        ) from error
    read: list[Seconds] = []
    for number, line in enumerate(lines, 1):
        if (value := _seconds(line)) is None:
            raise ConfigError(
                f"{path}:{number}: expected seconds of at least 0, got {line!r}"
            )
        read.append(value)
    if not read:
        raise ConfigError(f"{path}: expected a line of seconds for each task, got none")
    return Pace(read)


def _seconds(text: str) -> Seconds | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
