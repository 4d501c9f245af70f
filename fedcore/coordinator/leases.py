"""The clients that are here, and those of them that may train now.

A lease limits how many clients train at a time. A client may deliver without one: an
update whose lease has ended is weighed by its staleness like any other. Nothing here
is durable: after a restart, clients pull again.

A client is in one of the states of :class:`ClientState`, and ``TRANSITIONS`` says what
each method makes of them. Where a cohort trains each version (``synchronous``), a
client that is here also has one of four places in the cohort of this version:

- *fresh*: it may be invited. These are all clients that have none of the other places.
- *invited*: it gets a lease as soon as it waits for a task.
- *busy*: it trains, on this version or on an older one.
- *delivered*: it has delivered an update to this version, and is invited again only if
  no client is fresh, and never where clients train a version ``once``. It may be
  invited or busy at the same time.

These invariants hold between two calls; :meth:`Leases.validate` checks them:

- Clients that wait and clients that are busy are different ones, and all are here.
- Each lease names its client, and no two leases have the same number.
- Leases that have not ended are counted.
- Invited clients are here and not busy. Those of them that wait are *ready*.
- Fresh clients are those that are here and neither invited, busy nor have delivered.
- Without cohorts, no client has a place in one.
- Where clients may be only so far ahead of each other (``ahead``), those hold up others
  that wait, which the clocks know, and those whose newest lease has not ended.

The cost of a call does not depend on the number of clients.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice

from fedcore.algorithm import Algorithm
from fedcore.coordinator.clocks import Clocks
from fedcore.rng import Key
from fedcore.typing import JSON, State

SORTING = 4  # sorting one name takes as long as looking up this many


class ClientState(Enum):
    """What the server knows of what a client does."""

    AWAY = "away"  # it has not come yet, or is lost
    IDLE = "idle"  # it is here, and neither waits nor trains
    WAITING = "waiting"  # for a task
    TRAINING = "training"  # it has a lease
    LATE = "late"  # its lease has ended, and it has not delivered yet


_AWAY, _IDLE, _WAITING, _TRAINING, _LATE = ClientState

TRANSITIONS: Mapping[str, Mapping[ClientState, ClientState]] = {
    "arrive": dict.fromkeys(ClientState, _WAITING),
    "withdraw": {_WAITING: _IDLE},
    "grant": {_WAITING: _TRAINING},
    "expire": {_TRAINING: _LATE},
    "deliver": {_AWAY: _IDLE, _TRAINING: _IDLE, _LATE: _IDLE},
    "lose": dict.fromkeys(ClientState, _AWAY),
    "new_cohort": {_TRAINING: _LATE},  # if synchronous, of all clients
}
"""The next state for each method of :class:`Leases`; other states stay."""

_SETS = ("present", "waiting", "_invited", "_ready", "_delivered", "_fresh", "_known")


@dataclass(slots=True)
class Lease:
    """Leave for a client to train on one version."""

    cid: str
    version: int
    number: int


class Leases:
    """The clients that are here, those that wait, and those that train."""

    def __init__(
        self,
        algorithm: Algorithm,
        key: Key,
        name_of: Callable[[str], str],
        learned: Callable[[], State] = lambda: None,
    ) -> None:
        """Nobody is here yet.

        Args:
            algorithm: says how many clients may train, and which are preferred.
            key: of the random choices.
            name_of: the name of a client id; choices do not depend on ids.
            learned: the state of the selection rule.
        """
        self._cohort = algorithm.config.cohort
        self._least = algorithm.config.min_clients
        self._concurrency = algorithm.config.concurrency
        self._synchronous = algorithm.config.synchronous
        self._once = algorithm.config.once
        ahead = algorithm.config.ahead
        self._clocks = None if ahead is None else Clocks(ahead)
        self._selection, self._learned = algorithm.selection, learned
        self._in_turn = algorithm.config.selection.in_turn
        self._name_of = name_of
        self._key = key.fold_in("selection")
        # Dicts of None are sets in the order of arrival.
        self.present: dict[str, None] = {}
        self.waiting: dict[str, None] = {}
        # None: the lease has ended, and the client trains on.
        self.busy: dict[str, Lease | None] = {}
        self._training = 0  # leases that have not ended
        self._invited: dict[str, None] = {}
        self._ready: dict[str, None] = {}  # invited, and waiting
        self._delivered: dict[str, None] = {}  # to this version
        self._fresh: dict[str, None] = {}
        self._known: dict[str, None] = {}  # everyone who was ever here
        self._by_name: list[str] = []  # those known, in the order of their names
        self._number = 0
        self.attempt = 0  # the cohort of this version, counted from 0

    # ------------------------------------------------------------ transitions

    def arrive(self, cid: str) -> None:
        """A client waits for a task; it has stopped whatever it did before."""
        self.present[cid] = self._known[cid] = None
        self._free(cid)
        self.waiting.pop(cid, None)
        self.waiting[cid] = None
        if self._clocks is not None:
            self._clocks.stop(cid)
            self._clocks.join(cid)
            self._clocks.wait(cid)
        if not self._synchronous:
            return
        if cid in self._invited:
            self._ready[cid] = None
        elif cid not in self._delivered:
            self._fresh[cid] = None

    def withdraw(self, cid: str) -> None:
        """A waiting client gets no task, and may wait again."""
        if cid not in self.waiting:
            return
        self._ready.pop(cid, None)
        del self.waiting[cid]
        if self._clocks is not None:
            self._clocks.stop(cid)
            self._clocks.leave(cid)

    def deliver(self, cid: str) -> None:
        """A client has finished its task, with or without an update."""
        self.present.pop(cid, None)
        self.present[cid] = self._known[cid] = None
        self._free(cid)
        if self._clocks is not None:
            self._clocks.tick(cid)
        if self._synchronous:
            self._fresh.pop(cid, None)
            self._delivered[cid] = None

    def lose(self, cid: str) -> bool:
        """A client is gone; returns whether it was here."""
        was_here = cid in self.present
        self._free(cid)
        places: tuple[dict[str, None], ...]
        places = self.present, self.waiting, self._invited, self._ready, self._fresh
        for place in places:
            place.pop(cid, None)
        if self._clocks is not None:
            self._clocks.stop(cid)
            self._clocks.leave(cid)
        return was_here

    def expire(self, cid: str, number: int) -> bool:
        """Ends a lease; the client may deliver.

        Returns:
            Whether that makes room for others: the lease was held, or its client holds
            up others, though it has delivered and not asked again.
        """
        is_over = False
        if self._clocks is not None and cid not in self.waiting:
            is_over = self._clocks.expire(cid, number)
        if not self.holds(cid, number):
            return is_over
        self.busy[cid] = None
        self._training -= 1
        return True

    def new_cohort(self, *, same_version: bool) -> None:
        """Starts the cohort of a new version, or another one of the same version."""
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

    def grant(self, version: int, accepted: int) -> list[Lease]:
        """Gives leases to the waiting clients that may train now.

        Args:
            version: the version that they train on.
            accepted: the updates to this version that have arrived.
        """
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

    # ---------------------------------------------------------------- questions

    def state_of(self, cid: str) -> ClientState:
        """The state of a client, which changes as :data:`TRANSITIONS` says."""
        if cid not in self.present:
            return _AWAY
        if cid in self.waiting:
            return _WAITING
        if cid not in self.busy:
            return _IDLE
        return _LATE if self.busy[cid] is None else _TRAINING

    def holds(self, cid: str, number: int) -> bool:
        """Whether a client trains on this lease."""
        lease = self.busy.get(cid)
        return lease is not None and lease.number == number

    def is_settled(self, accepted: int) -> bool:
        """Whether :meth:`grant` gives no lease, no matter who arrives or delivers."""
        return self._synchronous and not self._invited and self._room(accepted) <= 0

    def has_room(self, accepted: int) -> bool:
        """Whether :meth:`grant` might give a lease; cheaper than asking it."""
        if not self._synchronous:
            return bool(self._may_begin)
        return bool(self._ready) or self._room(accepted) > 0

    def validate(self) -> None:
        """Checks the invariants of this module.

        Raises:
            AssertionError: one of them does not hold; says which.
        """
        present, busy = self.present.keys(), self.busy.keys()
        held = [lease for lease in self.busy.values() if lease is not None]
        invited, delivered = self._invited.keys(), self._delivered.keys()
        places = invited | self._ready.keys() | delivered | self._fresh.keys()
        fresh = present - busy - invited - delivered
        invariants = {
            "clients that are here are known": present <= self._known.keys(),
            "clients that wait are here": self.waiting.keys() <= present,
            "clients that are busy are here": busy <= present,
            "no client waits and is busy": not self.waiting.keys() & busy,
            "leases name their client": all(
                lease is None or lease.cid == cid for cid, lease in self.busy.items()
            ),
            "numbers of leases differ": len({x.number for x in held}) == len(held),
            "numbers of leases were given": all(
                0 < lease.number <= self._number for lease in held
            ),
            "leases are counted": self._training == len(held),
            "invited clients are here": invited <= present,
            "invited clients are not busy": not invited & busy,
            "ready clients are invited and wait": self._ready.keys()
            == invited & self.waiting.keys(),
            "fresh clients have no other place": not self._synchronous
            or self._fresh.keys() == fresh,
            "places are for cohorts": self._synchronous or not places,
            "clocks know who waits": self._clocks is None
            or self._clocks.waiting() == self.waiting.keys(),
        }
        broken = [what for what, holds in invariants.items() if not holds]
        if broken:
            raise AssertionError(f"leases: it is not so that {'; '.join(broken)}")

    # ------------------------------------------------------------------ choices

    def _room(self, accepted: int) -> int:
        """How many more clients the cohort of this version takes."""
        return self._cohort - self._training - len(self._invited) - accepted

    def _free(self, cid: str) -> None:
        """Notes that a client no longer trains."""
        if self.busy.pop(cid, None) is not None:
            self._training -= 1

    @property
    def _may_begin(self) -> Mapping[str, None]:
        """The waiting clients that are not too far ahead of others."""
        return self.waiting if self._clocks is None else self._clocks.free

    def _free_places(self) -> Collection[str]:
        """The waiting clients that may train where there is no cohort."""
        limit, waiting = self._concurrency, self._may_begin
        if limit is None:
            return list(waiting)
        room = limit - self._training
        if room <= 0 or not waiting:
            return ()
        return self._choose(waiting, room, self._key.fold_in(self._number))

    def _invite(self, version: int, room: int) -> None:
        """Fills the cohort from all idle clients, whether they wait or will pull.

        A client that has delivered to this version is invited again only if no other
        client is idle, and clients may train a version more than once. A random choice
        does not depend on who came first: with all clients present, a seed gives the
        same cohorts on any machine.
        """
        idle: Collection[str] = self._fresh or [
            cid
            for cid in self._delivered
            if not self._once
            and cid in self.present
            and cid not in self.busy
            and cid not in self._invited
        ]
        if not idle:
            return
        key = self._key.fold_in(version, self.attempt, self._number)
        for cid in self._choose(idle, room, key):
            self._fresh.pop(cid, None)
            self._invited[cid] = None
            if cid in self.waiting:
                self._ready[cid] = None

    def _choose(self, idle: Collection[str], room: int, key: Key) -> list[str]:
        """The clients that the selection rule prefers, at most ``room`` of them."""
        if len(idle) <= room:
            return list(idle)
        order = self._selection.order(self._learned(), room)
        preferred = order(self._candidates(idle, room), key)
        return list(islice((cid for cid in preferred if cid in idle), room))

    def _candidates(self, idle: Collection[str], room: int) -> list[str]:
        """A list that includes all idle clients, in the order that the rule wants.

        It includes everyone who is known where trying names costs less than sorting
        the idle ones.
        """
        if self._in_turn:  # the client that has waited longest comes first
            if not self._synchronous:  # only those who wait are idle
                return list(self.waiting)
            return list(dict.fromkeys(chain(self.waiting, self.present)))
        learns = self._selection.observe is not None  # from all, so it orders the idle
        if learns or SORTING * len(idle) ** 2 < room * len(self._known):
            return self._sorted(idle)
        if len(self._by_name) != len(self._known):
            self._by_name = self._sorted(self._known)
        return self._by_name

    def _sorted(self, cids: Collection[str]) -> list[str]:
        """Sorts by name, since a client's id is random."""
        return sorted(cids, key=lambda cid: (self._name_of(cid), cid))

    def _lease(self, cid: str, version: int) -> Lease:
        self._number += 1
        self._training += 1
        lease = Lease(cid, version, self._number)
        self._invited.pop(cid, None)
        self._ready.pop(cid, None)
        del self.waiting[cid]
        if self._clocks is not None:
            self._clocks.begin(cid, lease.number)
        self.busy[cid] = lease
        return lease

    # ----------------------------------------------------------------- snapshots

    def dump(self) -> JSON:
        """The state as JSON, for :meth:`load`."""
        sets = {name: list(getattr(self, name)) for name in _SETS}
        busy = [
            [cid, None if lease is None else [lease.version, lease.number]]
            for cid, lease in self.busy.items()
        ]
        return {
            **sets,
            "busy": busy,
            "number": self._number,
            "attempt": self.attempt,
            "clocks": self._clocks and self._clocks.dump(),
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned.

        Raises:
            AssertionError: it breaks an invariant.
        """
        for name in _SETS:
            setattr(self, name, dict.fromkeys(saved[name]))
        self.busy = {
            cid: None if lease is None else Lease(cid, *lease)
            for cid, lease in saved["busy"]
        }
        self._training = sum(lease is not None for lease in self.busy.values())
        self._number, self.attempt = saved["number"], saved["attempt"]
        if self._clocks is not None:
            if saved.get("clocks") is not None:
                self._clocks.load(saved["clocks"])
            else:  # the recipe did not bound how far ahead a client may be
                for cid in self.present:
                    if cid not in self.busy or self.busy[cid] is not None:
                        self._clocks.join(cid)
            for cid in self.waiting:
                self._clocks.wait(cid)
        self.validate()
