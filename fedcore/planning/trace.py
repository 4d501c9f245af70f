"""The phases of one client's tasks, as ``fedclient join --phases`` records them.

A row is a phase of a task: which task, which phase, when it started, how long it took,
how many bytes crossed the network, and the phase that it had to wait for. Rows of one
client make a :class:`Trace`, from which :mod:`fedcore.planning.throughput` predicts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from fedcore.errors import ConfigError
from fedcore.typing import Seconds

PHASES = {
    "request": "asks the server for a model and a task, and waits for its answer",
    "download": "reads the model",
    "decode": "takes the model over and makes it durable",
    "evaluate": "evaluates the model on its own data",
    "compute": "trains",
    "pace": "rests until the least time of a task is over (--pace)",
    "encode": "compresses the update and makes it durable",
    "upload": "hands the update to the network",
    "verdict": "waits for the server's verdict",
    "settle": "takes the verdict over and makes it durable",
}
"""What a client does in each phase, in order."""
ORDER = tuple(PHASES)
OWN = ("decode", "evaluate", "compute", "pace", "encode", "settle")
"""The phases that need neither the network nor the server."""
_LANES = {"request": "down", "download": "down", "upload": "up", "verdict": "up"}
"""Phases of one lane go on one after the other also where a task has parts."""
LEAST_TASKS = 10
NO_UPLOADS = "No upload has bytes: the uplink is taken to be free, whatever its rate."
NO_DOWNLOADS = (
    "No download has bytes: the downlink is taken to be free, whatever its rate."
)
_MOST_BYTES = 2**63


class Row(NamedTuple):
    """One phase of one task."""

    task: int
    phase: str
    start: Seconds
    duration: Seconds
    bytes: int = 0
    depends_on: str | None = None
    """The phase of the task that it waits for; None: the task before."""
    version: int | None = None
    """The version that was downloaded."""
    part: int | None = None
    """The layer, where a phase is divided; it waits for the same one of the other."""


class PhaseTimes(NamedTuple):
    """One task from its request to its verdict."""

    seconds: dict[str, Seconds]
    """By phase; a phase that did not happen is missing."""
    down: int
    """Bytes that were downloaded."""
    up: int
    """Bytes that were uploaded."""
    idle: Seconds
    """The time until the next task that belongs to no phase."""
    is_fresh: bool
    """Whether the model was newer than that of the task before."""
    hidden: Seconds = 0.0
    """The time of parts that went on beside others."""
    rows: Sequence[Row] = ()
    """Those of a task in parts."""

    @property
    def cycle(self) -> Seconds:
        """The whole time of the task."""
        return sum(self.seconds.values()) + self.idle - self.hidden


class Trace(NamedTuple):
    """The finished tasks of one client, and what is to be known about them."""

    client: str
    tasks: Sequence[PhaseTimes]
    doubts: Sequence[str]

    @property
    def cycle(self) -> Seconds:
        """The mean time of a task."""
        return sum(task.cycle for task in self.tasks) / len(self.tasks)

    def mean(self, phase: str) -> Seconds:
        """Returns the mean seconds of a phase."""
        total = sum(task.seconds.get(phase, 0.0) for task in self.tasks)
        return total / len(self.tasks)


def check_row(row: Row) -> None:
    """Checks one row.

    Raises:
        ConfigError: its phase is unknown, or a number in it cannot be.
    """
    if row.phase not in ORDER:
        raise ConfigError(
            f"unknown phase {row.phase!r}; the phases are {', '.join(PHASES)}"
        )
    if not (math.isfinite(row.duration) and row.duration >= 0):
        raise ConfigError(
            f"phase {row.phase!r}: expected a duration of at least 0 s, got "
            f"{row.duration:g}"
        )
    if not math.isfinite(row.start):
        raise ConfigError(f"phase {row.phase!r}: its start is {row.start:g}")
    if not 0 <= row.bytes < _MOST_BYTES:
        wanted = "at least 0" if row.bytes < 0 else "fewer than 2^63"
        raise ConfigError(
            f"phase {row.phase!r}: expected {wanted} bytes, got {row.bytes}"
        )
    if row.part is not None and row.part < 0:
        raise ConfigError(
            f"phase {row.phase!r}: expected a part from 0 on, got {row.part}"
        )
    if row.depends_on is not None and row.depends_on not in ORDER:
        raise ConfigError(
            f"phase {row.phase!r}: depends on {row.depends_on!r}, which is no phase; "
            f"the phases are {', '.join(PHASES)}"
        )


def trace_of(client: str, rows: Iterable[Row]) -> Trace:
    """Makes a trace of rows, which stand in the order in which they were recorded.

    The first task is left out, since it loads the data. So is a task without a verdict,
    and one that was sent again, also by a client that was killed and begins with it,
    since its time says nothing about a task that works.

    Raises:
        ConfigError: a row is wrong, phases overlap, there are fewer than
            ``LEAST_TASKS`` finished tasks, or none of them takes any time.
    """
    given = [list(own) for _, own in groupby(rows, key=lambda row: row.task)]
    found, left_out, before = list[PhaseTimes](), 0, None
    for place, own in enumerate(given):
        after = given[place + 1][0].start if place + 1 < len(given) else None
        counts = Counter((row.phase, row.part) for row in own)
        uploads = [count for (phase, _), count in counts.items() if phase == "upload"]
        if not place:
            pass  # it loads the data, and may know the first version already
        elif (
            not uploads
            or ("verdict", None) not in counts
            or max(uploads) > 1
            or own[0].phase == "upload"
        ):
            left_out += 1
        else:
            found.append(_task(own, after, before))
        versions = [row.version for row in own if row.version is not None]
        before = versions[-1] if versions else before
    if len(found) < LEAST_TASKS:
        raise ConfigError(
            f"the trace of {client!r} has {len(found)} finished tasks after its first "
            f"one; a prediction needs at least {LEAST_TASKS}"
        )
    if not any(task.cycle > 0 for task in found):
        raise ConfigError(
            f"the trace of {client!r} has tasks that take no time at all; expected "
            "durations above 0 s in some phase"
        )
    return Trace(client, found, _doubts(found, left_out))


def _task(own: list[Row], after: Seconds | None, before: int | None) -> PhaseTimes:
    seconds = dict[str, Seconds]()
    has_parts = any(row.part is not None for row in own)
    version, ends = None, dict[str, Seconds]()
    for row in own:
        check_row(row)
        lane = _LANES.get(row.phase, "own") if has_parts else ""
        end = ends.get(lane, -math.inf)
        if row.start < end - 1e-3:
            raise ConfigError(
                f"task {row.task}: phase {row.phase!r} starts at {row.start:g} s, "
                f"before the phase in front of it ends ({end:g} s)"
            )
        ends[lane] = row.start + row.duration
        seconds[row.phase] = seconds.get(row.phase, 0.0) + row.duration
        version = row.version if row.version is not None else version
    last = max(ends.values()) if after is None else max(after, *ends.values())
    total = sum(seconds.values())
    busy = _busy(own) if has_parts else total
    idle = max(0.0, last - own[0].start - busy)
    down = sum(row.bytes for row in own if row.phase in ("request", "download"))
    up = sum(row.bytes for row in own if row.phase in ("upload", "verdict"))
    is_fresh = version is None or version != before
    rows = own if has_parts else ()
    return PhaseTimes(seconds, down, up, idle, is_fresh, total - busy, rows)


def _busy(rows: Iterable[Row]) -> Seconds:
    """Returns the time in which at least one of the rows went on."""
    busy, end = 0.0, -math.inf
    for row in sorted(rows, key=lambda row: row.start):
        after = row.start + row.duration
        busy += max(0.0, after - max(end, row.start))
        end = max(end, after)
    return busy


def _doubts(tasks: Sequence[PhaseTimes], left_out: int) -> list[str]:
    """Returns the claims that the trace cannot support, in sentences."""
    doubts = []
    if left_out:
        doubts.append(
            f"Tasks that had no verdict or were sent again are left out: {left_out}."
        )
    if len({round(task.cycle, 9) for task in tasks}) == 1:
        doubts.append(
            "All tasks take exactly the same time: the prediction knows nothing of "
            "clients that are sometimes slower, and its staleness is too regular."
        )
    if not any(task.up for task in tasks):
        doubts.append(NO_UPLOADS)
    if not any(task.down for task in tasks):
        doubts.append(NO_DOWNLOADS)
    if len(tasks) < 3 * LEAST_TASKS:
        doubts.append(
            f"The trace has only {len(tasks)} tasks; rare long tasks may be missing."
        )
    return doubts
