"""A minimum duration of tasks, to spare a device or to imitate a slower one."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedcore.errors import ConfigError
from fedcore.text import brief
from fedcore.typing import Seconds
from fedrun.plain_files import read_plain


class Stint(NamedTuple):
    """The minimum duration of one task, and whether its update is sent."""

    seconds: Seconds = 0.0
    is_lost: bool = False  # whether to drop the update, as when a device drops out


class Pace(NamedTuple):
    """The stints of the first tasks; later tasks repeat them from the beginning."""

    stints: Sequence[Stint] = (Stint(),)

    def of(self, task: int) -> Stint:
        """Returns the stint of a task, counted from 0."""
        return self.stints[task % len(self.stints)]


AT_ONCE = Pace()
LOST = "lost"  # a word after the seconds: the update of this task is not sent


def read_pace(text: str) -> Pace:
    """Reads a pace: a number of seconds for all tasks, or a file with a line for each.

    Raises:
        ConfigError: it is neither; or a line is not a number of at least 0 that the
            word ``lost`` may follow; or all tasks are lost.
    """
    seconds = _seconds(text)
    if seconds is not None:
        return Pace((Stint(seconds),))
    path = Path(text)
    try:
        lines = read_plain(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--pace {brief(text)}: expected seconds of at least 0, or a file with a "
            "line of them for each task"
        ) from error
    read: list[Stint] = []
    for number, line in enumerate(lines, 1):
        number_of, _, word = line.strip().partition(" ")
        if (value := _seconds(number_of)) is None or word not in ("", LOST):
            raise ConfigError(
                f"{path}:{number}: expected seconds of at least 0, and {LOST!r} behind "
                f"them or nothing, got {brief(line)!r}"
            )
        read.append(Stint(value, word == LOST))
    if not read:
        raise ConfigError(f"{path}: expected a line of seconds for each task, got none")
    if all(stint.is_lost for stint in read):
        raise ConfigError(f"{path}: all tasks are lost, no update would ever be sent")
    return Pace(read)


def _seconds(text: str) -> Seconds | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
