"""Computes the shares that clients and labels have in the model.

An accepted update counts with λ n: its weight times its samples, as the recipe counts
them. The share of a client is the sum over its updates, divided by that of all. For the
share of a label, each update's λ n is divided among the labels that it used. Both are
kept over all updates and over the recent ones, so that one sees who fades.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.coordinator.events import (
    Decided,
    Declined,
    Departed,
    Enrolled,
    Evaluated,
    Evicted,
    Failed,
    Freed,
    Leased,
    Lost,
    Readmitted,
    Stepped,
)
from fedcore.protocol import Verdict
from fedcore.text import printable
from fedcore.typing import Counts, Seconds
from fedrun.journal.store import Row

# ------ what the clients of a run do, from its records: the one reading for every view


class Activity(StrEnum):
    """The present activity of a client, as its last record says."""

    IDLE = "idle"
    TRAINS = "trains"
    EVALUATES = "evaluates"
    RESTS = "rests"  # its task was refused before it was computed
    AWAY = "away"  # it has to be heard of first
    LOST = "lost"
    FAILED = "failed"
    LEFT = "left"
    EVICTED = "evicted"

    @property
    def is_gone(self) -> bool:
        """Whether the client takes part no more."""
        return self in (Activity.LEFT, Activity.EVICTED)


class Activities:
    """Follows each client's activity; ``observe`` takes the records in their order."""

    def __init__(self) -> None:
        self.now: dict[str, Activity] = {}  # by the clients' ids
        self._names: dict[str, str] = {}  # under which an operator may act on them

    def observe(self, record: Row) -> list[str]:
        """Takes note of a record; returns the ids of the clients that it concerns."""
        match record:
            case Evicted() | Readmitted() | Freed():
                named = [c for c, name in self._names.items() if name == record.name]
                return [cid for cid in named if self._act(cid, record)]
            case Enrolled():
                self._names[record.cid] = record.name
                before = self.now.get(record.cid, Activity.AWAY)
                returns = before in (Activity.AWAY, Activity.LOST)
                self.now[record.cid] = Activity.IDLE if returns else before
                return [record.cid]
        cid = getattr(record, "cid", None)
        if cid is None:
            return []
        before = self.now.get(cid, Activity.IDLE)
        self.now[cid] = before if before.is_gone else _after(record, before)
        return [cid]

    def _act(self, cid: str, act: Evicted | Readmitted | Freed) -> bool:
        """Carries out an operator's act; returns whether it changes what one does."""
        before = self.now[cid]
        match act:
            case Evicted() if not before.is_gone:
                self.now[cid] = Activity.EVICTED
            case Readmitted() if before is Activity.EVICTED:
                self.now[cid] = Activity.AWAY
            case Freed() if before is Activity.EVICTED:
                del self._names[cid]  # it stays out, whoever has the name since
        return self.now[cid] is not before


def _after(record: Row, before: Activity) -> Activity:
    """Returns what a client does after a record of its own."""
    match record:
        case Leased(task="train"):
            return Activity.TRAINS
        case Leased():
            return Activity.EVALUATES
        case Declined():
            return Activity.RESTS
        case Decided():
            return Activity.IDLE
        case Evaluated() if before is Activity.EVALUATES:
            return Activity.IDLE
        case Lost():
            return Activity.LOST
        case Failed():
            return Activity.FAILED
        case Departed():
            return Activity.LEFT
        case _:
            return before


# ----------------------- computes the shares that clients and labels have in the model


Portions = npt.NDArray[np.float64]

LEAST_RECENT, MOST_RECENT = 100, 100_000  # updates
EACH = 5  # recent updates of a client, on average
MOST_VALUES = 10_000_000  # of the recent updates' labels; older ones go first
_ROUNDING = 1e-9  # of sums in other orders
_CANCELLED = 1e6  # sum up again if this many times the rest was subtracted


@dataclass(slots=True)
class Share:
    """The share of one client in the model."""

    cid: str
    name: str
    updates: int = 0
    steps: int = 0  # of all of them
    mass: float = 0.0  # Σ λ n of its accepted updates
    recent: float = 0.0  # the same of those that are recent
    recent_updates: int = 0
    version: int | None = None  # at which its last one was accepted
    at: Seconds | None = None  # when
    left: bool = False


class Label(NamedTuple):
    """The share of one label in the model."""

    share: float
    recent: float
    version: int  # at which the last update that used it was accepted


class _Recent(NamedTuple):
    """One of the recent updates."""

    client: Share
    mass: float


class Coverage:
    """The shares so far; ``observe`` takes each record in the order of the journal."""

    def __init__(self, counted: Callable[[int], float] = float) -> None:
        """``counted`` maps the samples of an update to those that count."""
        self.counted = counted
        self.clients: dict[str, Share] = {}
        self.version = 0
        self.mass = 0.0  # Σ λ n of all accepted updates
        self.recent_mass = 0.0  # the same of the recent ones
        self._recent: deque[_Recent] = deque()
        self._portions: deque[Portions] = deque()  # of the labels of recent updates
        self._values = 0  # of all of these together
        self._forgotten = 0.0  # Σ λ n that was subtracted since all was summed up
        self._named: dict[str, Share] = {}  # the newest client of each name
        self.short = ShortVersions()
        self._labels: list[Portions] = [np.zeros(0), np.zeros(0)]  # all, recent
        # The version that used a label last, or -1.
        self._last_C = np.zeros(0, np.int64)

    def observe(self, record: Any) -> None:
        """Takes note of a record."""
        match record:
            case Enrolled():
                self._admit(record)
            case Departed() if record.cid in self.clients:
                self.clients[record.cid].left = True
            case Stepped():
                self.version = record.version
                self.short.observe(record)
            case Decided(verdict=Verdict.ACCEPTED) if record.cid in self.clients:
                self._take(record)
            case _:
                pass

    def _admit(self, record: Enrolled) -> None:
        name = printable(record.name)
        if record.role == "trainer":
            known = self.clients.setdefault(record.cid, Share(record.cid, name))
            if self._named.get(known.name) is known:
                del self._named[known.name]  # it may have another name now
            known.name = name
            before = self._named.get(name, known)
            before.left = before is not known  # it begins anew under its name
            self._named[name] = known

    def _take(self, record: Decided) -> None:
        client = self.clients[record.cid]
        mass = record.weight * self.counted(record.samples)
        client.left = False  # two clients may have one name
        client.updates += 1
        client.steps += record.steps
        client.mass += mass
        client.recent += mass
        client.recent_updates += 1
        client.version, client.at = self.version, record.at
        self.mass += mass
        self.recent_mass += mass
        portion_C = self._take_labels(record.counts, mass)
        self._recent.append(_Recent(client, mass))
        self._portions.append(portion_C)
        self._values += len(portion_C)
        while len(self._recent) > self.window:
            self._forget()
        while len(self._portions) > self.window or self._values > MOST_VALUES:
            self._forget_labels()
        if self._forgotten > _CANCELLED * self.recent_mass:
            self._sum_up()

    def _take_labels(self, counts_C: Counts | None, mass: float) -> Portions:
        """Divides an update's λ n among the labels that it used."""
        if counts_C is None:
            return np.zeros(0)
        more = len(counts_C) - len(self._last_C)
        if more > 0:
            self._labels = [np.pad(each, (0, more)) for each in self._labels]
            self._last_C = np.pad(self._last_C, (0, more), constant_values=-1)
        portion_C = counts_C.astype(np.float64) * (mass / (int(counts_C.sum()) or 1))
        for each in self._labels:
            each[: len(counts_C)] += portion_C
        self._last_C[: len(counts_C)][counts_C > 0] = self.version
        return portion_C

    def _forget(self) -> None:
        """Drops the oldest of the recent updates."""
        client, mass = self._recent.popleft()
        self.recent_mass -= mass
        self._forgotten += mass
        client.recent_updates -= 1
        client.recent = client.recent - mass if client.recent_updates else 0.0

    def _forget_labels(self) -> None:
        portion_C = self._portions.popleft()
        self._values -= len(portion_C)
        recent_C = self._labels[1][: len(portion_C)]
        recent_C -= portion_C
        np.maximum(recent_C, 0.0, out=recent_C)

    def _sum_up(self) -> None:
        """Sums the recent updates anew, since subtraction leaves rounding errors."""
        for client, _ in self._recent:
            client.recent = 0.0
        for client, mass in self._recent:
            client.recent += mass
        recent_C = np.zeros(len(self._last_C))
        for portion_C in self._portions:
            recent_C[: len(portion_C)] += portion_C
        self._labels[1] = recent_C
        self.recent_mass = sum(mass for _, mass in self._recent)
        self._forgotten = 0.0

    # ------------------------------------------------------------------ asking

    @property
    def window(self) -> int:
        """The number of updates that count as recent: a few for each client."""
        return min(max(LEAST_RECENT, EACH * len(self.clients)), MOST_RECENT)

    @property
    def recent_updates(self) -> int:
        """The number of recent updates so far."""
        return len(self._recent)

    @property
    def recent_labels(self) -> int:
        """The number of recent updates whose labels are kept."""
        return len(self._portions)

    def share(self, cid: str) -> float:
        """Returns a client's share in all updates."""
        return self.clients[cid].mass / self.mass if self.mass else 0.0

    def recent_share(self, cid: str) -> float:
        """Returns a client's share in the recent updates."""
        mass = self.recent_mass
        return self.clients[cid].recent / mass if mass > 0 else 0.0

    @property
    def missing(self) -> list[Share]:
        """Clients that have not left and are in no recent update, longest first.

        The keys of one name are one client, which the newest of them stands for.
        """
        everybody = list(self.clients.values())  # others may join meanwhile
        heard = {c.name for c in everybody if c.recent_updates}
        away = [
            c
            for c in everybody
            if not (c.left or c.name in heard or self.is_replaced(c.cid))
        ]
        return sorted(away, key=lambda c: -1 if c.version is None else c.version)

    def is_replaced(self, cid: str) -> bool:
        """Returns whether a newer client has the name of this one."""
        client = self.clients.get(cid)
        return client is not None and self._named.get(client.name, client) is not client

    @property
    def half(self) -> list[Share]:
        """The fewest clients that make up half of the recent updates, largest first."""
        everybody = list(self.clients.values())  # others may join meanwhile
        recent_N = np.array([client.recent for client in everybody])
        half = recent_N.sum() / 2 * (1 - _ROUNDING)
        if not half > 0:
            return []
        order_N = np.argsort(-recent_N, kind="stable")
        count = int(np.searchsorted(recent_N[order_N].cumsum(), half)) + 1
        return [everybody[place] for place in order_N[:count]]

    @property
    def labels(self) -> dict[int, Label]:
        """The shares of labels that were used, where clients tell which ones."""
        all_C, recent_C, last_C = self.label_shares()
        return {
            label: Label(
                float(all_C[label]), float(recent_C[label]), int(last_C[label])
            )
            for label in np.flatnonzero(last_C >= 0).tolist()
        }

    def label_shares(self) -> tuple[Portions, Portions, npt.NDArray[np.int64]]:
        """Returns the labels' shares of all and recent updates, and last versions."""
        all_C, recent_C = (each / (each.sum() or 1.0) for each in self._labels)
        known = min(len(all_C), len(recent_C), len(self._last_C))  # more may come
        return all_C[:known], recent_C[:known], self._last_C[:known]


# ----------- says that versions hold fewer updates than before, since clients are gone


IN_A_ROW = 10  # versions, before it is said


class ShortVersions:
    """Counts versions of fewer updates than ``buffer``, once some were full."""

    def __init__(self) -> None:
        self.buffer = 0
        """The updates that make a version; 0: nothing is said."""
        self._had_full = self._is_told = False
        self._in_a_row = self._count = 0

    def observe(self, version: Stepped) -> None:
        """Counts a version that was made, with the updates that it holds."""
        if version.reason == "buffer":
            self._had_full, self._in_a_row = True, 0
        elif version.reason == "complete" and version.count < self.buffer:
            self._in_a_row += 1
            self._count = version.count

    @property
    def sentence(self) -> str:
        """A warning about the newest versions; empty if they are as they should be."""
        if not self._had_full or self._in_a_row < IN_A_ROW:
            return ""
        updates = "1 update" if self._count == 1 else f"{self._count:,} updates"
        return (
            f"versions hold {updates} of the {self.buffer:,} that algorithm.buffer "
            "asks for, since no more clients are there; algorithm.minimum says how "
            "many a version needs at least"
        )

    def news(self) -> str:
        """Returns the sentence when it is true for the first time; else nothing."""
        if self._is_told or not (sentence := self.sentence):
            return ""
        self._is_told = True
        return sentence
