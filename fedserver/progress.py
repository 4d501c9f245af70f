"""The progress of a run, counted from its records as they become durable."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fedcore.coordinator.records import (
    Decided,
    Declined,
    Departed,
    Enrolled,
    Evaluated,
    Evicted,
    Failed,
    Leased,
    Lost,
    Readmitted,
    Skipped,
    Stepped,
)
from fedcore.protocol import Verdict
from fedcore.text import printable
from fedcore.typing import Seconds
from fedrun.journal.codec import Row
from fedrun.results.coverage import Coverage
from fedrun.results.failures import USELESS, last_line
from fedrun.run import Run
from fedrun.traffic import Traffic
from fedserver.counts import Counts

RECENT = 200  # steps from which rates are computed


@dataclass
class ClientProgress:
    """What the records say about one client."""

    name: str
    role: str
    doing: str = "idle"
    accepted: int = 0
    refused: int = 0
    declined: int = 0  # tasks that were refused before they were computed
    staleness: int = 0  # of its last update
    weight: float = 0.0  # likewise
    memory_norm: float = 0.0
    failures: int = 0
    error: str = ""  # the last one, in a line
    skipped: int = 0  # samples that its code left out
    why: str = ""  # the reason that it gave last
    payload_up: int = 0
    payload_down: int = 0
    seen: Seconds = 0.0
    seq: int = 0  # of its last decided update


@dataclass
class Progress:
    """The counts of one run; the core thread writes them, other threads read them."""

    listeners: list[Callable[[Row], None]] = field(default_factory=list)
    clients: dict[str, ClientProgress] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    metrics: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    coverage: Coverage = field(default_factory=Coverage)
    address: str = ""
    payload_up: int = 0  # of all clients
    payload_down: int = 0

    @property
    def verdicts(self) -> Counter[str]:
        """How many updates got each verdict."""
        return self.counts.verdicts

    def __post_init__(self) -> None:
        """Prepares the counts."""
        self.lock = threading.Lock()
        self._steps: deque[tuple[Seconds, int]] = deque(maxlen=RECENT)
        self._accepted: deque[Seconds] = deque(maxlen=RECENT)  # when, on this clock
        self._run: Run | None = None
        self.began = time.monotonic()

    def watch(self, run: Run) -> None:
        """Counts the records that a run's journal holds already."""
        self._run = run
        self.coverage.counted = run.config.algorithm.counted
        for entry in run.journal.store.entries(payloads=False):
            self._count(entry.record)
        self._accepted.clear()  # those were accepted by another process
        for client in self.clients.values():
            if client.doing.startswith("train"):
                client.doing = "away"  # until it is heard of

    def listening(self, host: str, port: int) -> None:
        """Notes the address on which the server listens."""
        self.address = f"{host}:{port}"

    def observe(self, records: list[Row]) -> None:
        """Counts records that have become durable, and calls the listeners.

        A listener sees the counts up to its record. If one raises, everything is
        counted all the same, and the first error is raised at the end.
        """
        errors: list[Exception] = []
        for record in records:
            with self.lock:
                self._count(record)
            for listener in self.listeners:
                try:
                    listener(record)
                except Exception as error:  # noqa: BLE001 -- raised below
                    errors.append(error)
        if errors:
            raise errors[0]

    @property
    def run(self) -> Run:
        """The run, once :meth:`watch` was called."""
        assert self._run is not None
        return self._run

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
        """The seconds since the last update was accepted, or the process began."""
        return time.monotonic() - (self._accepted[-1] if self._accepted else self.began)

    @property
    def usual(self) -> Seconds:
        """The usual time between two accepted updates; 0 if there were too few."""
        times = sorted(later - at for at, later in pairwise(list(self._accepted)))
        return times[len(times) // 2] if times else 0.0

    def name(self, cid: str) -> str:
        """Returns a client's name."""
        return self.clients[cid].name if cid in self.clients else printable(cid)

    def ids(self, cid: str | None = None) -> dict[str, Any]:
        """Returns what a line of the log concerns, as :mod:`fedrun.json_lines` says.

        Args:
            cid: of a client that has a task; None: it concerns no client.
        """
        ids: dict[str, Any] = {} if self._run is None else {"run": self._run.run_id}
        if cid is not None:
            client = self.clients.get(cid)
            ids |= {"client": self.name(cid), "cid": cid}
            ids["seq"] = 1 + (0 if client is None else client.seq)
        return ids

    def _count(self, record: Row) -> None:
        client = self.clients.get(getattr(record, "cid", ""))
        if client is not None:
            client.seen = record.at
        self.coverage.observe(record)
        self.counts.observe(record)
        match record:
            case Enrolled():
                if client is None:
                    client = ClientProgress(record.name, record.role)
                    self.clients[record.cid] = client
                client.name, client.role = printable(record.name), record.role
            case Decided() if client is not None:
                self._count_update(record, client)
            case Leased() if client is not None:
                client.doing = f"{record.task}s {record.version}"
                client.payload_down += record.nbytes
                self.payload_down += record.nbytes
            case Declined() if client is not None:
                client.doing = "rests"
                client.declined += 1
            case Lost() if client is not None:
                client.doing = "lost"
            case Failed() if client is not None:
                client.doing = "failed"
                client.failures += 1
                client.error = last_line(record.error)
            case Skipped() if client is not None:
                client.skipped += record.count
                client.why = printable(record.why)
            case Departed() if client is not None:
                client.doing = "left"
            case Evicted() | Readmitted():
                self._let(record)
            case Stepped():
                self._steps.append((record.at, record.count))
            case Evaluated() if client is not None:
                if client.role == "evaluator":
                    values = {printable(k): v for k, v in record.values.items()}
                    self.metrics.append((record.version, values))
                    client.doing = "idle"
            case _:
                pass

    def _let(self, record: Evicted | Readmitted) -> None:
        """Notes whether the clients of a name may take part."""
        name = printable(record.name)
        for client in self.clients.values():
            if client.name != name or client.doing == "left":
                continue
            if isinstance(record, Evicted):
                client.doing = "evicted"
            elif client.doing == "evicted":
                client.doing = "away"

    def _count_update(self, record: Decided, client: ClientProgress) -> None:
        accepted = record.verdict is Verdict.ACCEPTED
        if accepted:
            self._accepted.append(time.monotonic())
        elif record.verdict in USELESS:
            client.failures += 1
            client.error = printable(record.reason)
        client.accepted += accepted
        client.refused += not accepted
        client.staleness, client.weight = record.staleness, record.weight
        client.seq = record.seq
        client.memory_norm = record.memory_norm
        client.payload_up += record.nbytes
        self.payload_up += record.nbytes
        client.doing = "idle"


def goals(run: Run) -> list[tuple[str, float, float]]:
    """Returns the run's goals, each as its name, the value now, and the goal."""
    state, stop = run.coordinator.state, run.config.stop
    found: list[tuple[str, float, float]] = []
    if stop.versions is not None:
        found.append(("versions", state.version, stop.versions))
    if stop.updates is not None:
        found.append(("updates", state.applied + state.count, stop.updates))
    if stop.seconds is not None and state.started is not None:
        found.append(("seconds", state.at - state.started, stop.seconds))
    return found
