"""A run, real or simulated, in the numbers by which they are compared.

Time counts from the first task that was given out, because a simulation does not
predict how long processes take to start, and ends with the run: later arrivals are
refused and not counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fedcore.coordinator.events import Closed, Decided, Leased, Stepped
from fedcore.errors import ConfigError
from fedcore.protocol import Verdict
from fedcore.typing import Seconds
from fedstudies.trial import Trial, read_trial
from fedview.report.downsample import Floats, floats
from fedview.results import Results


@dataclass(frozen=True, kw_only=True)
class Side:
    """One run."""

    name: str
    trial: Trial
    """Its curve and costs; seconds from the first task to the end."""
    lost: int
    """Tasks of which nothing came, up to the end."""
    staleness: Floats
    """Of each update that arrived, also of those that came too late to be used."""
    update_bytes: tuple[int, ...]
    """Sizes of updates that occurred, each once, in order."""
    digests: tuple[str, ...]
    """Of all published versions."""

    @property
    def rate(self) -> float:
        """Accepted updates a second."""
        return self.trial.updates / self.trial.seconds if self.trial.seconds else 0.0


def read_side(name: str, results: Results) -> Side:
    """The numbers of a run.

    Raises:
        ConfigError: no task was given out.
    """
    began, ended = began_and_ended(results)
    updates = [r for r in results.of(Decided) if r.at <= ended]
    tasks = list(_tasks(results, ended))
    accepted = [r for r in updates if r.verdict is Verdict.ACCEPTED]
    trial = read_trial(results)
    offset = began - results.started
    trial = replace(
        trial,
        seconds=ended - began,
        updates=len(accepted),
        bytes_up=sum(r.nbytes for r in updates),
        bytes_down=sum(r.nbytes for r in tasks),
        places=[p._replace(seconds=max(0.0, p.seconds - offset)) for p in trial.places],
    )
    return Side(
        name=name,
        trial=trial,
        lost=_lost(results, ended),
        staleness=floats([r.staleness for r in updates]),
        update_bytes=tuple(sorted({r.nbytes for r in accepted})),
        digests=tuple(r.digest for r in results.of(Stepped)),
    )


def began_and_ended(results: Results) -> tuple[Seconds, Seconds]:
    """When the first task was given out, and when the run ended, as the journal has it.

    Raises:
        ConfigError: no task was given out.
    """
    began = min((r.at for r in _tasks(results)), default=None)
    if began is None:
        raise ConfigError(f"{results.folder}: no client ever got a task")
    closed = results.of(Closed)
    ended = closed[0].at if closed else results.started + results.seconds
    return began, max(began, ended)


def _tasks(results: Results, until: Seconds = float("inf")) -> Iterator[Any]:
    for record in results.of(Leased):
        if record.at <= until and record.cid not in results.evaluators:
            yield record


def _lost(results: Results, until: Seconds) -> int:
    """Tasks whose client was given another one before it delivered."""
    lost, busy = 0, set[str]()
    for record in results.records:
        if record.at > until:
            continue
        if isinstance(record, Leased) and record.cid not in results.evaluators:
            lost += record.cid in busy
            busy.add(record.cid)
        elif isinstance(record, Decided):
            busy.discard(record.cid)
    return lost
