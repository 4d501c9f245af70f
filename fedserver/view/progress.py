"""The state of a run and of its clients: the one model that every view shows.

It counts the records of the run as they become durable, so a restarted server continues
the counts. It reads the rest (the model's version, the connected clients, the disk)
where that is kept.
"""

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fedcore.coordinator import events
from fedcore.coordinator.state import ServerState
from fedcore.protocol import Verdict
from fedcore.text import printable
from fedcore.typing import JSON, Seconds
from fedrun.journal.store import Row
from fedrun.run import Run
from fedrun.traffic import Traffic
from fedrun.units import in_seconds
from fedview.results.coverage import Activities, Activity, Coverage
from fedview.results.failures import USELESS, last_line

if TYPE_CHECKING:
    from fedserver.calls.callers import Sessions
    from fedserver.core import Core

RECENT = 200  # number of steps from which rates are computed
# A run is stalled if no update was accepted for this long, and for this many times the
# usual time between two updates.
LEAST: Seconds = 60.0
TIMES = 10
STALENESS_BOUNDS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The upper bounds of the bins of staleness, in versions; one more bin has no bound."""
ACTS: dict[type[Row], str] = {
    events.Paused: "pause",
    events.Unpaused: "resume",
    events.Evicted: "evict",
    events.Readmitted: "readmit",
    events.Freed: "free",
    events.SnapshotOrdered: "snapshot",
}
"""The operator's acts, by the names of the commands."""


@dataclass
class ClientProgress:
    """The state of one client."""

    name: str
    role: str
    activity: Activity = Activity.IDLE
    version: int = 0  # of its newest task
    accepted: int = 0
    refused: int = 0
    declined: int = 0  # tasks that were refused before they were computed
    staleness: int = 0  # of its last update
    weight: float = 0.0  # likewise
    memory_norm: float = 0.0
    failures: int = 0
    error: str = ""  # the last error, in one line
    skipped: int = 0  # samples that its code left out
    why: str = ""  # the reason that it gave last
    payload_up: int = 0
    payload_down: int = 0
    seen: Seconds = 0.0
    seq: int = 0  # of its last decided update

    @property
    def is_busy(self) -> bool:
        """Whether it has a task."""
        return self.activity in (Activity.TRAINS, Activity.EVALUATES)

    @property
    def doing(self) -> str:
        """Its activity, for people: ``trains 12`` if the task is of version 12."""
        return f"{self.activity} {self.version}" if self.is_busy else self.activity

    def to_json(self) -> JSON:
        """Returns the client for a status."""
        facts: JSON = {"name": self.name, "role": self.role, "doing": self.doing}
        hidden = ("activity", "version")
        return facts | {k: v for k, v in vars(self).items() if k not in hidden}

    def count(self, record: Row, activity: Activity) -> None:
        """Takes a record that concerns this client into account."""
        self.activity = activity
        if not isinstance(record, events.Evicted | events.Readmitted):
            self.seen = record.at
        match record:
            case events.Enrolled():
                self.name, self.role = printable(record.name), record.role
            case events.Leased():
                self.version = record.version
                self.payload_down += record.nbytes
            case events.Declined():
                self.declined += 1
            case events.Failed():
                self.failures += 1
                self.error = last_line(record.error)
            case events.Skipped():
                self.skipped += record.count
                self.why = printable(record.why)
            case events.Decided():
                accepted = record.verdict is Verdict.ACCEPTED
                if record.verdict in USELESS:
                    self.failures += 1
                    self.error = printable(record.reason)
                self.accepted += accepted
                self.refused += not accepted
                self.staleness, self.weight = record.staleness, record.weight
                self.seq, self.memory_norm = record.seq, record.memory_norm
                self.payload_up += record.nbytes
            case _:
                pass


def _bins() -> list[int]:
    return [0] * (len(STALENESS_BOUNDS) + 1)


@dataclass
class Progress:
    """The state of one run; the core thread counts its records, other threads read."""

    listeners: list[Callable[[Row], None]] = field(default_factory=list)
    clients: dict[str, ClientProgress] = field(default_factory=dict)
    metrics: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """The results of the evaluators, each with its version."""
    traffic: Traffic = field(default_factory=Traffic)
    coverage: Coverage = field(default_factory=Coverage)
    address: str = ""
    not_ready: Callable[[], str] = lambda: "the server is starting"
    """Why the server accepts no work, in a sentence; empty if it does."""
    payload_up: int = 0  # of all clients
    payload_down: int = 0
    recorded: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    staleness_T: list[int] = field(default_factory=_bins)
    """Updates in each bin of staleness (T,), without malformed and discarded ones."""
    staleness_sum: int = 0
    accepted_at: Seconds = 0.0
    versions: Counter[str] = field(default_factory=Counter)
    """The number of versions, by the reason for which they were made."""
    version_at: Seconds = 0.0
    """The time of the newest version; for version 0, the beginning of the run."""
    tasks: Counter[str] = field(default_factory=Counter)
    declined: int = 0
    failed: int = 0
    skipped: int = 0
    lost: int = 0
    unproved: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    sessions: "Sessions" = field(init=False)
    core: "Core" = field(init=False)

    def __post_init__(self) -> None:
        """Prepares the counts."""
        self.lock = threading.Lock()
        self._activities = Activities()
        self._steps: deque[tuple[Seconds, int]] = deque(maxlen=RECENT)
        self._accepted: deque[Seconds] = deque(maxlen=RECENT)  # times on this clock
        self._run: Run | None = None
        self.began = time.monotonic()

    def watch(self, run: Run, sessions: "Sessions", core: "Core") -> None:
        """Shows this run from now on; counts the records that its journal holds."""
        self._run, self.sessions, self.core = run, sessions, core
        self.coverage.counted = run.config.algorithm.count_update
        self.coverage.short.buffer = run.config.algorithm.buffer
        for entry in run.journal.store.entries(payloads=False):
            self._count(entry.record)
        self._accepted.clear()  # those were accepted by another process
        for cid, client in self.clients.items():
            if client.activity is Activity.TRAINS:  # if it still does, it has to say so
                client.activity = self._activities.now[cid] = Activity.AWAY

    def listening(self, host: str, port: int) -> None:
        """Notes the address on which the server listens."""
        self.address = f"{host}:{port}"

    # ------------------------------------------------------------------ counting

    def observe(self, durable: list[Row]) -> None:
        """Counts records that have become durable, and calls the listeners.

        A listener sees the counts up to its record. If one raises, everything is
        counted all the same, and the first error is raised at the end.
        """
        errors: list[Exception] = []
        for record in durable:
            with self.lock:
                self._count(record)
            for listener in self.listeners:
                try:
                    listener(record)
                except Exception as error:  # noqa: BLE001 -- raised below
                    errors.append(error)
        if errors:
            raise errors[0]

    def _count(self, record: Row) -> None:
        """Counts one record, in the run and in the clients that it concerns."""
        self.recorded += 1
        self.version_at = self.version_at or record.at
        self.coverage.observe(record)
        for cid in self._activities.observe(record):
            if isinstance(record, events.Enrolled):
                self.clients.setdefault(cid, ClientProgress("", record.role))
            if (client := self.clients.get(cid)) is not None:
                client.count(record, self._activities.now[cid])
        match record:
            case events.Decided():
                self._count_update(record)
            case events.Stepped():
                self._steps.append((record.at, record.count))
                self.versions[record.reason] += 1
                self.version_at = record.at
            case events.Leased():
                self.tasks[record.task] += 1
                self.payload_down += record.nbytes
            case events.Declined():
                self.declined += 1
            case events.Failed():
                self.failed += 1
            case events.Skipped():
                self.skipped += record.count
            case events.Lost():
                self.lost += 1
            case events.Unproved():
                self.unproved += record.count
            case events.Evaluated() if self.is_evaluator(record.cid):
                values = {printable(k): v for k, v in record.values.items()}
                self.metrics.append((record.version, values))
            case _ if act := ACTS.get(type(record)):
                self.acts[act] += 1
            case _:
                pass

    def _count_update(self, record: events.Decided) -> None:
        self.verdicts[record.verdict.value] += 1
        self.payload_up += record.nbytes
        if record.verdict not in USELESS:  # those may say nonsense of their version
            self.staleness_T[bisect_left(STALENESS_BOUNDS, record.staleness)] += 1
            self.staleness_sum += record.staleness
        if record.verdict is Verdict.ACCEPTED:
            self.accepted_at = record.at
            self._accepted.append(time.monotonic())

    # -------------------------------------------------------------------- asking

    @property
    def run(self) -> Run:
        """The run, once :meth:`watch` was called."""
        assert self._run is not None
        return self._run

    @property
    def state(self) -> ServerState:
        """The state of the run's server."""
        return self.run.coordinator.state

    @property
    def rate(self) -> float:
        """The accepted updates a second over the last steps."""
        if len(self._steps) < 2:
            return 0.0
        (first, _), (last, _) = self._steps[0], self._steps[-1]
        updates = sum(count for _, count in list(self._steps)[1:])
        return updates / (last - first) if last > first else 0.0

    @property
    def quiet(self) -> Seconds:
        """The seconds since the last accepted update, or since the process began."""
        return time.monotonic() - (self._accepted[-1] if self._accepted else self.began)

    @property
    def usual(self) -> Seconds:
        """The usual time between two accepted updates; 0 if there were too few."""
        times = sorted(later - at for at, later in pairwise(list(self._accepted)))
        return times[len(times) // 2] if times else 0.0

    @property
    def goals(self) -> list[tuple[str, float, float]]:
        """The run's goals, each as its name, the current value, and the goal."""
        state, stop = self.state, self.run.config.stop
        found: list[tuple[str, float, float]] = []
        if stop.versions is not None:
            found.append(("versions", state.version, stop.versions))
        if stop.updates is not None:
            found.append(("updates", state.applied + state.count, stop.updates))
        if stop.seconds is not None and state.started is not None:
            found.append(("seconds", state.at - state.started, stop.seconds))
        return found

    @property
    def activities(self) -> Counter[Activity]:
        """The number of clients by activity."""
        return Counter(client.activity for client in list(self.clients.values()))

    @property
    def stalled(self) -> str | None:
        """Why the run is stalled, in a sentence; None if it is not."""
        quiet = self.quiet
        if self.state.closed or self.state.is_paused:
            return None
        if quiet < max(LEAST, TIMES * self.usual):
            return None
        return f"no update for {in_seconds(quiet)}: {'; '.join(self._reasons())}"

    def _reasons(self) -> list[str]:
        """Returns the possible reasons for a stalled run."""
        leases, trainers = (
            self.run.coordinator.rounds.leases,
            self.state.roster.trainers,
        )
        here, failed = len(leases.present), self.activities[Activity.FAILED]
        counts = (
            (len(leases.busy), f"of {trainers:,} trains", f"of {trainers:,} train"),
            (len(leases.waiting), "waits for a task", "wait for a task"),
            (trainers - here, "is away", "are away"),
            (failed, "failed last", "failed last"),
        )
        some = ", ".join(
            f"{n:,} {one if n == 1 else more}" for n, one, more in counts if n
        )
        algorithm = self.run.config.algorithm
        parts = [some if trainers else "no client has joined"]
        if here < algorithm.min_clients > 1:
            parts.append(f"training begins with {algorithm.min_clients:,} clients")
        if self.core.trouble:
            parts.append("the disk is full or fails")
        parts.append(f"the buffer has {self.state.count:,} of {algorithm.buffer:,}")
        return [part for part in parts if part]

    def is_evaluator(self, cid: str) -> bool:
        """Returns whether a client is an evaluator."""
        return cid in self.clients and self.clients[cid].role == "evaluator"

    def name(self, cid: str) -> str:
        """Returns a client's name."""
        return self.clients[cid].name if cid in self.clients else printable(cid)

    def ids(self, cid: str | None = None) -> dict[str, Any]:
        """Returns the ids for a line of the log, named as in :mod:`fedrun.json_lines`.

        Args:
            cid: the id of a client that has a task; None if the line concerns no
                client.
        """
        ids: dict[str, Any] = {} if self._run is None else {"run": self._run.run_id}
        if cid is not None:
            client = self.clients.get(cid)
            ids |= {"client": self.name(cid), "cid": cid}
            ids["seq"] = 1 + (0 if client is None else client.seq)
        return ids
