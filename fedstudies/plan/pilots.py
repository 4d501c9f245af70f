"""Pilot runs: what a few workers show about error, time and bytes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedcore.coordinator.events import Decided, Evaluated, Stepped
from fedcore.errors import IMPOSSIBLE, ConfigError, DivergedError
from fedcore.planning.error_curves import Pilot
from fedcore.planning.volatile_workers import Protocol
from fedcore.protocol import Verdict
from fedcore.typing import Seconds
from fedrun.app import load_app
from fedrun.fields import wrong_field
from fedrun.json_text import read_json
from fedrun.plain_files import make_own, read_plain, write_text
from fedrun.run import Run
from fedsim.api import run
from fedsim.evaluator import NAME as EVALUATOR
from fedstudies.plan.goal import Target
from fedstudies.runner import BrokenDownError, Patience, Task
from fedstudies.trial import Trial, read_trial
from fedview.callbacks import Notice
from fedview.results import Results

MOST_TASKS = 400  # durations that are kept of a pilot


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One pilot, as plain data."""

    protocol: Protocol
    local_steps: int | None
    trial: Trial
    counts: list[int]
    """y: the updates in each version."""
    task_seconds: list[Seconds]
    """From a version, or a client's last update, to its update."""
    where: str

    def as_pilot(self, target: Target) -> Pilot:
        """Returns the pilot for the error model.

        Raises:
            ConfigError: it has no evaluations of the metric.
        """
        target.require(self.trial.metrics, self.where)
        values = self.trial.metrics[target.metric]
        pairs = [
            (place.version, target.error_of(value))
            for place, value in zip(self.trial.places, values, strict=True)
            if value is not None and place.version <= len(self.counts)
        ]
        first_of = dict(reversed(pairs))
        at = sorted(first_of)
        inverse_J = [1 / max(1, count) for count in self.counts]
        return Pilot(at, [first_of[version] for version in at], inverse_J)

    def as_json(self) -> dict[str, Any]:
        """Returns the pilot as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Measured":
        """Returns the pilot that :meth:`as_json` wrote.

        Raises:
            LookupError, TypeError, ValueError: it is none.
        """
        pilot = cls(**{**raw, "trial": Trial.from_json(raw["trial"])})
        if wrong := wrong_field(pilot):
            raise ValueError(wrong)
        return pilot


def simulate_pilot(task: Task[Any], target: Target) -> Measured:
    """Simulates a pilot, and reads it.

    Raises:
        ConfigError: its first evaluation has not the metric of the target, its clients
            fail, or it broke down.
    """
    patience = Patience(task.settings)

    def check(run: Run, event: Notice) -> None:
        patience(run, event)
        if isinstance(event, Evaluated) and event.cid == EVALUATOR:
            target.require(event.values, task.app)

    workload = load_app(task.app, task.place)
    with TemporaryDirectory(dir=task.scratch) as folder:
        place = Path(folder) / "run"
        try:
            run(task.settings, workload, folder=place, on_event=check)
        except (BrokenDownError, DivergedError) as error:
            why = patience.failure and f"; a client failed: {patience.failure}"
            raise ConfigError(
                "pilots: one of them broke down; lower the learning rate, unless its "
                f"clients fail for another reason ({error}{why})"
            ) from error
        return read_pilot(place, "a pilot")


def read_pilot(folder: Path, where: str = "") -> Measured:
    """Reads a run as a pilot.

    Args:
        folder: of the run, simulated or real.
        where: its name for errors.

    Raises:
        ConfigError: there is no run, or it made no versions.
    """
    results = Results(folder)
    steps = results.of(Stepped)
    where = where or f"--pilot {folder}"
    if not steps:
        raise ConfigError(f"{where}: made no versions")
    is_round = results.setting("algorithm", "synchronous", default=False)
    return Measured(
        protocol="synchronous" if is_round else "buffered",
        local_steps=results.setting("algorithm", "client", "steps", default=0) or None,
        trial=read_trial(results),
        counts=[step.count for step in steps],
        task_seconds=_durations(results, is_round=is_round),
        where=where,
    )


def _durations(results: Results, *, is_round: bool) -> list[Seconds]:
    """Returns the times from a version, or a client's last update, to an update."""
    published = {0: results.started}
    published |= {step.version: step.at for step in results.of(Stepped)}
    last: dict[str, float] = {}
    found = []
    for each in results.of(Decided):
        if each.verdict is not Verdict.ACCEPTED:
            continue
        begin = published.get(each.base) if is_round else last.get(each.cid)
        if begin is not None and each.at > begin:
            found.append(each.at - begin)
        last[each.cid] = each.at
    if not found:
        raise ConfigError("pilots: too short; no client delivered two updates")
    places = np.linspace(0, len(found) - 1, min(len(found), MOST_TASKS)).astype(int)
    return [float(found[place]) for place in places]


class Pilots:
    """Finished pilots in a folder, by the digests of what they depend on."""

    def __init__(self, folder: Path) -> None:
        """Takes the folder of the plan."""
        self._folder = folder / "pilots"

    def get(self, key: str) -> Measured | None:
        """Returns the pilot, or None if it is not known."""
        path = self._folder / f"{key}.json"
        if not path.is_file():
            return None
        try:
            return Measured.from_json(read_json(read_plain(path).decode()))
        except (OSError, *IMPOSSIBLE) as error:
            raise ConfigError(
                f"{path}: is not a pilot ({type(error).__name__}); remove it, and it "
                "is simulated again"
            ) from error

    def put(self, key: str, found: Measured) -> None:
        """Keeps a pilot."""
        path = make_own(self._folder) / f"{key}.json"
        write_text(path, json.dumps(found.as_json()) + "\n")


def by_way(
    pilots: Sequence[Measured],
) -> Iterator[tuple[tuple[Protocol, int | None], list[Measured]]]:
    """Yields the pilots of each protocol and number of local steps."""
    ways: dict[tuple[Protocol, int | None], list[Measured]] = {}
    for pilot in pilots:
        ways.setdefault((pilot.protocol, pilot.local_steps), []).append(pilot)
    yield from ways.items()
