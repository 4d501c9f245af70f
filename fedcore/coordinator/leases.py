"""Who may train now.

None of this is durable: a restart forgets it, clients pull again, and an update
of a forgotten lease is weighed by its staleness like any other. A lease limits
concurrency, never the right to deliver.

What an event costs does not depend on how many clients there are.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from fedcore.algorithm import Algorithm
from fedcore.rng import Key
from fedcore.typing import JSON

Wish = TypeVar("Wish")  # what a waiting client asked with
SORTING = 4  # as long as trying so many names, for each that is sorted


_SETS = (
    "present",
    "parked",
    "_invited",
    "_ready",
    "_delivered",
    "_fresh",
    "_known",
)


@dataclass(slots=True)
class Lease:
    """Leave to train on one version."""

    version: int
    number: int


class Leases(Generic[Wish]):
    """The clients that are there, those that wait, and those that train."""

    def __init__(
        self, algorithm: Algorithm, key: Key, name_of: Callable[[str], str]
    ) -> None:
        self._config = algorithm.config
        self._cohort = algorithm.config.cohort
        self._least = algorithm.config.min_clients
        self._synchronous = algorithm.config.synchronous
        self._order = algorithm.selection.order
        self._in_turn = algorithm.config.selection.in_turn
        self._name_of = name_of
        self._key = key.fold_in("selection")
        self.present: dict[str, None] = {}  # an ordered set
        self.parked: dict[str, Wish] = {}  # waiting for a task, in order of arrival
        # None: the lease has ended, and the client trains on.
        self.busy: dict[str, Lease | None] = {}
        self._training = 0  # leases that have not ended
        self._invited: dict[str, None] = {}
        self._ready: dict[str, None] = {}  # invited, and waiting
        self._delivered: dict[str, None] = {}  # to this version
        # Who may be invited, being neither busy nor invited: first those that have
        # not delivered to this version.
        self._fresh: dict[str, None] = {}
        self._known: dict[str, None] = {}
        self._by_name: list[str] = []  # those known, in the order of their names
        self._number = 0
        self.attempt = 0  # the cohort of this version, counted from 0

    def arrive(self, cid: str, wish: Wish) -> None:
        """A client waits for a task. Whatever it did before, it does no more."""
        self.present[cid] = self._known[cid] = None
        self._free(cid)
        self.parked.pop(cid, None)
        self.parked[cid] = wish
        if not self._synchronous:
            return
        if cid in self._invited:
            self._ready[cid] = None
        elif cid not in self._delivered:
            self._fresh[cid] = None

    def withdraw(self, cid: str) -> Wish | None:
        """A waiting client gets no task, and may wait again."""
        self._ready.pop(cid, None)
        return self.parked.pop(cid, None)

    def deliver(self, cid: str) -> None:
        """A client is through with its task."""
        self.present.pop(cid, None)
        self.present[cid] = self._known[cid] = None
        self._free(cid)
        if self._synchronous:
            self._fresh.pop(cid, None)
            self._delivered[cid] = None

    def lose(self, cid: str) -> bool:
        """A client is gone; says whether it was there."""
        was_there = cid in self.present
        self._free(cid)
        places: tuple[dict[str, Any], ...]
        places = self.present, self.parked, self._invited, self._ready, self._fresh
        for place in places:
            place.pop(cid, None)
        return was_there

    def expire(self, cid: str, number: int) -> bool:
        """A lease ends; the client may still deliver. Says whether it was held."""
        if not self.holds(cid, number):
            return False
        self.busy[cid] = None
        self._training -= 1
        return True

    def holds(self, cid: str, number: int) -> bool:
        """Whether a client trains on this lease."""
        lease = self.busy.get(cid)
        return lease is not None and lease.number == number

    def is_settled(self, accepted: int) -> bool:
        """Whether :meth:`grant` finds nobody, whoever arrives and whatever is in."""
        return self._synchronous and not self._invited and self._room(accepted) <= 0

    def new_cohort(self, *, same_version: bool) -> None:
        """A version was published, or the cohort of this one melted away."""
        self.attempt = self.attempt + 1 if same_version else 0
        if not self._synchronous:
            return
        idle = chain(self._delivered, self._invited)
        self._delivered, self._invited, self._ready = {}, {}, {}
        for cid in idle:
            if cid in self.present and cid not in self.busy:
                self._fresh[cid] = None
        self.busy = dict.fromkeys(self.busy)
        self._training = 0

    def has_room(self, accepted: int) -> bool:
        """Whether :meth:`grant` might find somebody, at little cost."""
        if not self._synchronous:
            return bool(self.parked)
        return bool(self._ready) or self._room(accepted) > 0

    def grant(self, version: int, accepted: int) -> list[tuple[str, Wish, Lease]]:
        """The waiting clients that shall train now, ``accepted`` updates being in."""
        if len(self.present) < self._least:
            return []
        chosen: Collection[str]
        if self._synchronous:
            room = self._room(accepted)
            if room > 0:
                self._invite(version, room)
            chosen = list(self._ready) if self._ready else ()
        else:
            chosen = self._free_places()
        return [self._lease(cid, version) for cid in chosen]

    def _room(self, accepted: int) -> int:
        """How many more clients the cohort of this version takes."""
        return self._cohort - self._training - len(self._invited) - accepted

    def _free(self, cid: str) -> None:
        """It does not train any more."""
        if self.busy.pop(cid, None) is not None:
            self._training -= 1

    def _free_places(self) -> Collection[str]:
        limit = self._config.concurrency
        if limit is None:
            return list(self.parked)
        room = limit - self._training
        if room <= 0 or not self.parked:
            return ()
        return self._choose(self.parked, room, self._key.fold_in(self._number))

    def _invite(self, version: int, room: int) -> None:
        """Fills the cohort from all idle clients, waiting or about to pull.

        Whoever has delivered to this version comes again only if nobody else is idle.
        A draw by lot does not depend on who came first: with all clients present, a
        seed gives the same cohorts on any machine.
        """
        idle: Collection[str] = self._fresh or [
            cid
            for cid in self._delivered
            if cid in self.present and cid not in self.busy and cid not in self._invited
        ]
        if not idle:
            return
        key = self._key.fold_in(version, self.attempt, self._number)
        for cid in self._choose(idle, room, key):
            self._fresh.pop(cid, None)
            self._invited[cid] = None
            if cid in self.parked:
                self._ready[cid] = None

    def _choose(self, idle: Collection[str], room: int, key: Key) -> list[str]:
        if len(idle) <= room:
            return list(idle)
        preferred = self._order(self._candidates(idle, room), key)
        return list(islice((cid for cid in preferred if cid in idle), room))

    def _candidates(self, idle: Collection[str], room: int) -> list[str]:
        """A list that holds those who are idle, in the order that the rule wants.

        It is of everybody where trying names costs less than sorting the idle ones.
        """
        if self._in_turn:  # whoever has waited longest comes first
            return list(dict.fromkeys(chain(self.parked, self.present)))
        if SORTING * len(idle) ** 2 < room * len(self._known):
            return self._sorted(idle)
        if len(self._by_name) != len(self._known):
            self._by_name = self._sorted(self._known)
        return self._by_name

    def _sorted(self, cids: Collection[str]) -> list[str]:
        """By their names; a client's id is random."""
        return sorted(cids, key=lambda cid: (self._name_of(cid), cid))

    def _lease(self, cid: str, version: int) -> tuple[str, Wish, Lease]:
        self._number += 1
        self._training += 1
        lease = Lease(version, self._number)
        self._invited.pop(cid, None)
        self._ready.pop(cid, None)
        self.busy[cid] = lease
        return cid, self.parked.pop(cid), lease

    def dump(self) -> JSON:
        """Who is there and trains, for one who does not want to forget it."""
        sets = {name: list(getattr(self, name)) for name in _SETS}
        busy = [
            [cid, None if lease is None else [lease.version, lease.number]]
            for cid, lease in self.busy.items()
        ]
        return {**sets, "busy": busy, "number": self._number, "attempt": self.attempt}

    def load(self, saved: JSON, wish: Wish) -> None:
        """What :meth:`dump` gave; all who wait asked with the same wish."""
        for name in _SETS:
            setattr(self, name, dict.fromkeys(saved[name]))
        self.parked = dict.fromkeys(saved["parked"], wish)
        self.busy = {
            cid: None if lease is None else Lease(*lease)
            for cid, lease in saved["busy"]
        }
        self._training = sum(lease is not None for lease in self.busy.values())
        self._number, self.attempt = saved["number"], saved["attempt"]
