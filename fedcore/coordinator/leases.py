"""Who may train now.

None of this is durable: a restart forgets it, clients pull again, and an update
of a forgotten lease is weighed by its staleness like any other. A lease limits
concurrency, never the right to deliver.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedcore.algorithm import Algorithm
from fedcore.protocol import Pull
from fedcore.rng import Key


@dataclass(slots=True)
class Lease:
    """Leave to train on one version."""

    version: int
    number: int


class Leases:
    """The clients that are there, those that wait, and those that train."""

    def __init__(
        self, algorithm: Algorithm, key: Key, name_of: Callable[[str], str]
    ) -> None:
        self._config = algorithm.config
        self._select = algorithm.selection.choose
        self._name_of = name_of
        self._key = key.fold_in("selection")
        self.present: dict[str, None] = {}  # an ordered set
        self.parked: dict[str, Pull] = {}  # waiting for a task, in order of arrival
        # None: the lease has ended, and the client trains on.
        self.busy: dict[str, Lease | None] = {}
        self._invited: set[str] = set()
        self._delivered: set[str] = set()  # to this version
        self._number = 0
        self.attempt = 0  # the cohort of this version, counted from 0

    def arrive(self, pull: Pull) -> None:
        """A client waits for a task. Whatever it did before, it does no more."""
        self.present[pull.cid] = None
        self.busy.pop(pull.cid, None)
        self.parked.pop(pull.cid, None)
        self.parked[pull.cid] = pull

    def withdraw(self, cid: str) -> Pull | None:
        """A waiting client gets no task, and may wait again."""
        return self.parked.pop(cid, None)

    def deliver(self, cid: str) -> None:
        """A client is through with its task."""
        self.present.pop(cid, None)
        self.present[cid] = None
        self.busy.pop(cid, None)
        self._delivered.add(cid)

    def lose(self, cid: str) -> bool:
        """A client is gone; says whether it was there."""
        was_there = cid in self.present
        for place in (self.present, self.parked, self.busy):
            place.pop(cid, None)
        self._invited.discard(cid)
        return was_there

    def expire(self, cid: str, number: int) -> None:
        """A lease ends; the client may still deliver."""
        lease = self.busy.get(cid)
        if lease is not None and lease.number == number:
            self.busy[cid] = None

    def new_cohort(self, *, same_version: bool) -> None:
        """A version was published, or the cohort of this one melted away."""
        self.attempt = self.attempt + 1 if same_version else 0
        self._delivered.clear()
        if self._config.synchronous:
            self._invited.clear()
            self.busy = dict.fromkeys(self.busy)

    def grant(self, version: int, accepted: int) -> list[tuple[Pull, Lease]]:
        """The waiting clients that shall train now, ``accepted`` updates being in."""
        if len(self.present) < self._config.min_clients:
            return []
        if self._config.synchronous:
            self._invite(version, accepted)
            chosen: Iterable[str] = [cid for cid in self.parked if cid in self._invited]
        else:
            chosen = self._free_places()
        return [self._lease(cid, version) for cid in chosen]

    def _free_places(self) -> list[str]:
        limit = self._config.concurrency
        if limit is None or not self.parked:
            return list(self.parked)
        room = limit - self._training()
        if room <= 0:
            return []
        return self._choose(list(self.parked), room, self._key.fold_in(self._number))

    def _invite(self, version: int, accepted: int) -> None:
        """Fills the cohort from all idle clients, waiting or about to pull.

        Whoever has delivered to this version comes again only if nobody else is idle.
        A draw by lot does not depend on who came first: with all clients present, a
        seed gives the same cohorts on any machine.
        """
        room = self._config.cohort - self._training() - len(self._invited) - accepted
        waiting = [cid for cid in self.parked if cid not in self._invited]
        about_to_pull = [
            cid
            for cid in self.present
            if not (cid in self.busy or cid in self._invited or cid in self.parked)
        ]
        idle = [*waiting, *about_to_pull]  # whoever has waited longest comes first
        idle = [cid for cid in idle if cid not in self._delivered] or idle
        if room > 0 and idle:
            key = self._key.fold_in(version, self.attempt, self._number)
            self._invited.update(self._choose(idle, room, key))

    def _choose(self, idle: list[str], room: int, key: Key) -> list[str]:
        if not self._config.selection.in_turn:
            # A client's id is random, its name is not.
            idle = sorted(idle, key=lambda cid: (self._name_of(cid), cid))
        return self._select(idle, room, key)

    def _training(self) -> int:
        return sum(lease is not None for lease in self.busy.values())

    def _lease(self, cid: str, version: int) -> tuple[Pull, Lease]:
        self._number += 1
        lease = Lease(version, self._number)
        self._invited.discard(cid)
        self.busy[cid] = lease
        return self.parked.pop(cid), lease
