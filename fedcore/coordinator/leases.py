"""The clients that are here, and those of them that may train now.

A lease limits how many clients train at a time. A task outlives its lease: an update
whose lease has ended is weighed by its staleness like any other. Nothing here is
durable but what has entered the version that is being made, which follows from the
records (:attr:`fedcore.coordinator.state.ServerState.entered`); after a restart,
clients pull again.

A client is in one of the states of :class:`ClientState`, and ``TRANSITIONS`` says what
each method makes of them.

**Cohorts.** Where a cohort trains each version (``synchronous``), a client delivers to
a version once at most. A client that is here has one of five places in the cohort:

- *fresh*: it may be invited. These are all clients that have none of the other places
  and are not silent.
- *invited*: it gets a lease as soon as it waits for a task. Who asks again while it
  trains on this version keeps its place in the cohort, and is invited.
- *busy*: it trains, on this version or on an older one.
- *tried*: it was given this version, nothing came of that, and it waits again: it is
  invited if no client is fresh. Until it asks, it has no place.
- *delivered*: its update has joined this version; it waits for the next one.

The cohort is *complete* once nobody is left who can still deliver to it.

**Buffers.** Without cohorts, a client may deliver ``places`` times to a version: by
default twice its fair share of the K updates, which is K divided by the clients that
can be expected to deliver, and once at least. Who has used its places is *held* until
the next version.

**Silent** clients are here and hold up nobody until they ask for a task: their newest
lease is over, or their task has failed. Neither a cohort nor ``ahead`` waits for them,
and fair shares do not count them.

These invariants hold between two calls; :meth:`Leases.validate` checks them:

- Clients that wait and clients that are busy are different ones, and all are here.
- Each lease names its client, and no two leases have the same number.
- Leases that have not ended are counted.
- Invited clients are here and not busy. Those of them that wait are *ready*.
- Fresh clients are those that are here and neither invited, busy, silent nor have
  delivered or been given this version.
- Tried clients wait, were given this version, and are neither invited nor delivered.
- Without cohorts, no client has a place in one, and a client that waits is held if
  and only if it has used its places.
- Clients that wait or are invited are not silent, and silent ones are here.
- Where clients may be only so far ahead of each other (``ahead``), the clocks know who
  waits.

The cost of a call does not depend on the number of clients.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from itertools import chain, islice

from fedcore.aggregators import fair_places
from fedcore.algorithm import Algorithm
from fedcore.coordinator.actions import Lease
from fedcore.rng import Key
from fedcore.typing import JSON, State

# --------------------- how far ahead of the slowest one each client is: a mirror clock
#
# Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI
# 2017: each site announces its clock, and a site that is ``ahead`` of the slowest one
# waits. With all sites at one server that is the bound of Ho et al., "More Effective
# Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013.
#
# A client's clock counts the tasks that it has finished. Who comes, for the first time
# or again, begins at least at the slowest clock. Who is lost, or neither trains nor
# asks for a task once its lease is over, holds up nobody until it asks again. The cost
# of a call does not depend on the number of clients.


class Clocks:
    """The clocks of the clients, and who waits for slower ones."""

    def __init__(self, ahead: int) -> None:
        """Nobody is here yet.

        Args:
            ahead: a client may begin a task while its clock is at most this far from
                the slowest one; 0: all go in step.
        """
        self._ahead = ahead
        self._clocks: dict[str, int] = {}  # of everyone who was ever here
        self._here: dict[str, None] = {}  # those who hold up others
        self._at: Counter[int] = Counter()  # how many of them are at each clock
        self.slowest = 0
        self.free: dict[str, None] = {}
        """The clients that wait and may begin a task, in the order of arrival."""
        self._held: dict[int, dict[str, None]] = {}  # those that may not, by clock

    def join(self, cid: str) -> None:
        """A client is here; its clock is not below the slowest one."""
        if cid in self._here:
            return
        if not self._here:
            self.slowest = max(self.slowest, self._clocks.get(cid, 0))
        clock = self._clocks[cid] = max(self.slowest, self._clocks.get(cid, 0))
        self._here[cid] = None
        self._at[clock] += 1
        self._advance()

    def leave(self, cid: str) -> None:
        """A client no longer holds up others."""
        if cid in self._here:
            del self._here[cid]
            self._take_from(self._clocks[cid])
            self._advance()

    def tick(self, cid: str) -> None:
        """A client has finished a task."""
        if cid not in self._here:
            self._clocks[cid] = max(self.slowest, self._clocks.get(cid, 0)) + 1
            return
        clock, waits = self._clocks[cid], self.stop(cid)
        self._clocks[cid] = clock + 1
        self._at[clock + 1] += 1
        self._take_from(clock)
        self._advance()
        if waits:
            self.wait(cid)

    def wait(self, cid: str) -> None:
        """A client that is here asks for a task."""
        clock = self._clocks[cid]
        if clock - self.slowest <= self._ahead:
            self.free[cid] = None
        else:
            self._held.setdefault(clock, {})[cid] = None

    def stop(self, cid: str) -> bool:
        """A client no longer asks for one; returns whether it did."""
        if cid in self.free:
            del self.free[cid]
            return True
        clock = self._clocks.get(cid, 0)
        held = self._held.get(clock, {})
        if cid not in held:
            return False
        del held[cid]
        if not held:
            del self._held[clock]
        return True

    def waiting(self) -> set[str]:
        """Everyone who asks for a task, to check the books with."""
        return {*self.free, *(cid for held in self._held.values() for cid in held)}

    def dump(self) -> JSON:
        """The clocks, and who is here, for :meth:`load`."""
        return {
            "clocks": self._clocks,
            "here": [*self._here],
            "slowest": self.slowest,
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned; nobody waits yet."""
        self._clocks = dict(saved["clocks"])
        self._here = dict.fromkeys(saved["here"])
        self._at = Counter(self._clocks[cid] for cid in self._here)
        self.slowest = saved["slowest"]
        self.free, self._held = {}, {}

    def _take_from(self, clock: int) -> None:
        self._at[clock] -= 1
        if not self._at[clock]:
            del self._at[clock]

    def _advance(self) -> None:
        """Moves the slowest clock up to where somebody is, and lets clients go on."""
        if not self._at:
            return
        while self.slowest not in self._at:
            self.slowest += 1
            self.free.update(self._held.pop(self.slowest + self._ahead, {}))


# --------------------- the clients that are here, and those of them that may train now


SORTING = 4  # sorting one name takes as long as looking up this many


class ClientState(Enum):
    """The state of a client, as far as the server knows."""

    AWAY = "away"  # it has not come yet, or is lost
    IDLE = "idle"  # it is here, and neither waits nor trains
    WAITING = "waiting"  # for a task
    TRAINING = "training"  # it has a lease
    LATE = "late"  # its lease has ended, and it has not delivered yet


_AWAY, _IDLE, _WAITING, _TRAINING, _LATE = ClientState
_FINISHED = {_AWAY: _IDLE, _TRAINING: _IDLE, _LATE: _IDLE}

TRANSITIONS: Mapping[str, Mapping[ClientState, ClientState]] = {
    "arrive": dict.fromkeys(ClientState, _WAITING),
    "withdraw": {_WAITING: _IDLE},
    "grant": {_WAITING: _TRAINING},
    "expire": {_TRAINING: _LATE},
    "deliver": _FINISHED,
    "refuse": {},
    "fail": _FINISHED,
    "lose": dict.fromkeys(ClientState, _AWAY),
    "begin_version": {_TRAINING: _LATE},  # if synchronous, of all clients
    "extend_cohort": {_TRAINING: _LATE},
}
"""The next state for each method of :class:`Leases`; other states stay."""

_SETS = (
    *("present", "waiting", "_invited", "_ready", "_members", "_tried", "_fresh"),
    *("_free", "_held", "_silent", "known"),
)


class Leases:
    """The clients that are here, those that wait, and those that train."""

    # CPython reads attributes slowly where an object has more than thirty and no slots.
    __slots__ = (
        *("_cohort", "_buffer", "_least", "_concurrency", "_synchronous", "_most"),
        *("_clocks", "_selection", "_learned", "_in_turn", "_name_of", "_key"),
        *("training", "delivered", "busy", "attempt"),
        *("_newest", "_places", "_by_name", "_number"),
        *_SETS,
    )

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
        config = algorithm.config
        self._cohort, self._buffer = config.cohort, config.buffer
        self._least = config.min_clients
        self._concurrency = config.concurrency
        self._synchronous = config.synchronous
        self._most = config.places
        self._clocks = None if config.ahead is None else Clocks(config.ahead)
        self._selection, self._learned = algorithm.selection, learned
        self._in_turn = config.selection.in_turn
        self._name_of = name_of
        self._key = key.fold_in("selection")
        # Dicts of None are sets in the order of arrival.
        self.present: dict[str, None] = {}
        self.waiting: dict[str, None] = {}
        # None: the lease has ended, and the client trains on.
        self.busy: dict[str, Lease | None] = {}
        self.training = 0
        """How many leases have not ended."""
        self._newest: dict[str, int] = {}  # the number of each client's newest lease
        self._silent: dict[str, None] = {}
        self.delivered: dict[str, int] = {}
        """How many updates of each client have joined this version."""
        self._members: dict[str, None] = {}  # those that were given this version
        self._invited: dict[str, None] = {}
        self._ready: dict[str, None] = {}  # invited, and waiting
        self._tried: dict[str, None] = {}
        self._fresh: dict[str, None] = {}
        self._free: dict[str, None] = {}  # those that wait and are not held
        self._held: dict[str, None] = {}
        self._places = self._most or fair_places(self._buffer, 1)
        self.known: dict[str, None] = {}
        """Everyone who was ever here."""
        self._by_name: list[str] = []  # those known, in the order of their names
        self._number = 0
        self.attempt = 0  # how often the cohort of this version was extended

    # ------------------------------------------------------------ transitions

    def arrive(self, cid: str) -> None:
        """A client waits for a task; it has stopped whatever it did before."""
        is_back = cid not in self.present or cid in self._silent
        if is_back:
            self.present[cid] = self.known[cid] = None
            self._silent.pop(cid, None)
        keeps_place = cid in self.busy and self._free_of(cid) is not None
        if cid in self.waiting:  # it is the last one now
            del self.waiting[cid]
        self.waiting[cid] = None
        if self._clocks is not None:
            self._clocks.stop(cid)
            self._clocks.join(cid)
            self._clocks.wait(cid)
        if not self._synchronous:
            if is_back:
                self._divide()
            self._line_up(cid)
        elif cid in self.delivered:
            pass
        elif keeps_place or cid in self._invited:
            self._invited[cid] = self._ready[cid] = None
        elif cid in self._members:
            self._tried[cid] = None
        else:
            self._fresh[cid] = None

    def withdraw(self, cid: str) -> None:
        """A waiting client gets no task, and may wait again."""
        if cid not in self.waiting:
            return
        self._leave_line(cid)
        if self._clocks is not None:
            self._clocks.leave(cid)

    def deliver(self, cid: str) -> None:
        """A client has finished its task with an update, which joins this version."""
        if self._in_turn or self._clocks is not None or cid not in self.present:
            self._note_sign(cid)
        lease, times = self._free_of(cid), self.delivered.get(cid, 0) + 1
        if lease is not None and cid not in self._free:
            self.delivered[cid] = times  # a client that trains has no other place
        else:
            self.count(cid, times)

    def count(self, cid: str, times: int) -> None:
        """Notes how many updates of a client have joined this version."""
        self.delivered[cid] = times
        if self._synchronous:
            for place in (self._fresh, self._invited, self._ready, self._tried):
                place.pop(cid, None)
        elif cid in self._free and times >= self._places:
            self._line_up(cid)

    def refuse(self, cid: str) -> None:
        """The update that a client has just delivered joins no version after all."""
        left = self.delivered.pop(cid) - 1
        if left:
            self.delivered[cid] = left
        if cid in self._held and left < self._places:
            self._line_up(cid)
        self._place(cid)

    def fail(self, cid: str) -> None:
        """A client has finished its task without an update."""
        self._note_sign(cid)
        self._free_of(cid)
        if cid in self.waiting:  # it has asked again before this was told
            self._place(cid)
        else:
            self._fall_silent(cid)

    def lose(self, cid: str) -> bool:
        """A client is gone; returns whether it was here."""
        was_here = cid in self.present
        self._free_of(cid)
        self._leave_line(cid)
        for place in (self.present, self._silent, self._invited, self._fresh):
            place.pop(cid, None)
        if self._clocks is not None:
            self._clocks.leave(cid)
        self._divide()
        return was_here

    def expire(self, cid: str, number: int) -> bool:
        """The time of a lease is over; the client may still deliver.

        Returns:
            Whether that may make room for others: the lease was held, or nobody waits
            for its client any longer, though it has delivered and not asked again.
        """
        if not self.awaits(cid, number):
            return False
        if self.busy.get(cid) is not None:
            self.busy[cid] = None
            self.training -= 1
        self._fall_silent(cid)
        return True

    def begin_version(self) -> None:
        """Starts the cohort of a new version, or divides its places anew."""
        self.attempt = 0
        delivered, self.delivered = self.delivered, {}
        if not self._synchronous:
            held, self._held = self._held, {}
            self._free.update(held)
            self._divide()
            return
        back = dict.fromkeys(chain(delivered, self._members, self._invited))
        self._members, self._tried, self._invited, self._ready = {}, {}, {}, {}
        present, out = self.present, self.busy.keys() | self._silent.keys()
        for cid in back:
            if cid in present and cid not in out:
                self._fresh[cid] = None
        self.busy = dict.fromkeys(self.busy)
        self.training = 0

    def extend_cohort(self) -> None:
        """Ends all leases: too few have delivered, and others may take their places."""
        self.attempt += 1
        if not self._synchronous:
            return
        invited, self._invited, self._ready = self._invited, {}, {}
        for cid in invited:
            self._place(cid)
        self.busy = dict.fromkeys(self.busy)
        self.training = 0

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
            for pool in (self._fresh, self._tried):
                if pool and (room := self._room(accepted)) > 0:
                    self._invite(pool, version, room)
            chosen, self._ready = self._ready, {}
        else:
            chosen = self._next_in_line()
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

    def awaits(self, cid: str, number: int) -> bool:
        """Whether the end of this lease changes anything.

        It is the newest one of a client that is here, does not wait for a task, and is
        not silent.
        """
        return (
            self._newest.get(cid) == number
            and cid in self.present
            and cid not in self.waiting
            and cid not in self._silent
        )

    def is_newest(self, cid: str, number: int) -> bool:
        """Whether this is a client's newest lease; others end without consequences."""
        return self._newest.get(cid) == number

    def is_settled(self, accepted: int) -> bool:
        """Whether no client that is here gets a lease by delivering or by waiting."""
        if not self._synchronous or self._invited:
            return False
        may_get_one = self._fresh or self._tried or self._silent
        return not may_get_one or self._room(accepted) <= 0

    def has_room(self, accepted: int) -> bool:
        """Whether :meth:`grant` might give a lease; cheaper than asking it."""
        if not self._synchronous:
            return bool(self._may_begin)
        if self._ready:
            return True
        if not (self._fresh or self._tried):
            return False
        return self._room(accepted) > 0

    @property
    def may_lease(self) -> bool:
        """False where nobody can get a lease; cheaper than :meth:`has_room`.

        A cohort may also invite clients that do not wait.
        """
        return self._synchronous or bool(self.waiting)

    @property
    def is_complete(self) -> bool:
        """Whether nobody is left who can still deliver to the cohort's version."""
        if not self._synchronous or self.training:
            return False
        return all(map(self._is_through, self.present))

    @property
    def places(self) -> int:
        """Returns how many updates of one client may join this version."""
        return 1 if self._synchronous else self._places

    def validate(self) -> None:
        """Checks the invariants of this module.

        Raises:
            AssertionError: one of them does not hold; says which.
        """
        present, busy = self.present.keys(), self.busy.keys()
        held = [lease for lease in self.busy.values() if lease is not None]
        invited, delivered = self._invited.keys(), self.delivered.keys()
        waiting, members = self.waiting.keys(), self._members.keys()
        places = invited | self._ready.keys() | members | self._fresh.keys()
        silent = self._silent.keys()
        fresh = present - busy - invited - delivered - members - silent
        tried = (waiting & members) - invited - delivered
        spent = {c for c in waiting if self.delivered.get(c, 0) >= self._places}
        invariants = {
            "clients that are here are known": present <= self.known.keys(),
            "clients that wait are here": waiting <= present,
            "clients that are busy are here": busy <= present,
            "no client waits and is busy": not waiting & busy,
            "leases name their client": all(
                lease is None or lease.cid == cid for cid, lease in self.busy.items()
            ),
            "numbers of leases differ": len({x.number for x in held}) == len(held),
            "numbers of leases were given": all(
                0 < lease.number <= self._number for lease in held
            ),
            "leases are counted": self.training == len(held),
            "silent clients are here, do not wait and are not invited": silent
            <= present - waiting - invited,
            "invited clients are here": invited <= present,
            "invited clients are not busy": not invited & busy,
            "ready clients are invited and wait": self._ready.keys()
            == invited & waiting,
            "fresh clients have no other place": not self._synchronous
            or self._fresh.keys() == fresh,
            "tried clients wait for another chance": self._tried.keys() == tried,
            "places in a cohort are for cohorts": self._synchronous
            or not (places or self._tried),
            "held clients have used their places": self._synchronous
            or (self._held.keys() == spent and self._free.keys() == waiting - spent),
            "clocks know who waits": self._clocks is None
            or self._clocks.waiting() == waiting,
        }
        broken = [what for what, holds in invariants.items() if not holds]
        if broken:
            raise AssertionError(f"leases: it is not so that {'; '.join(broken)}")

    # ------------------------------------------------------------------ changes

    def _note_sign(self, cid: str) -> None:
        """Notes that a client is here, and has finished its task."""
        if cid not in self.present:
            self.present[cid] = self.known[cid] = None
            self._divide()
        elif self._in_turn:  # it is the last one now
            del self.present[cid]
            self.present[cid] = None
        if self._clocks is not None:
            self._clocks.tick(cid)

    def _free_of(self, cid: str) -> Lease | None:
        """Ends what a client trains; returns its lease, unless that had ended."""
        lease = self.busy.pop(cid, None)
        if lease is not None:
            self.training -= 1
        return lease

    def _place(self, cid: str) -> None:
        """Gives an idle or waiting client its place in the cohort of this version."""
        if not self._synchronous or cid not in self.present or cid in self.busy:
            return
        if cid in self.delivered or cid in self._invited or cid in self._silent:
            return
        if cid not in self._members:
            self._fresh[cid] = None
        elif cid in self.waiting:
            self._tried[cid] = None

    def _fall_silent(self, cid: str) -> None:
        """Lets nobody wait for a client until it asks again."""
        self._silent[cid] = None
        self._fresh.pop(cid, None)
        self._invited.pop(cid, None)
        if self._clocks is not None:
            self._clocks.leave(cid)
        self._divide()

    def _leave_line(self, cid: str) -> None:
        """Takes a client out of those that wait."""
        for place in (self.waiting, self._ready, self._tried, self._free, self._held):
            place.pop(cid, None)
        if self._clocks is not None:
            self._clocks.stop(cid)

    # ------------------------------------------------------------------ buffers

    def _line_up(self, cid: str) -> None:
        """Puts a waiting client last among those that may begin, or that are held."""
        self._free.pop(cid, None)
        if self._held:
            self._held.pop(cid, None)
        is_spent = self.delivered.get(cid, 0) >= self._places
        (self._held if is_spent else self._free)[cid] = None

    def _divide(self) -> None:
        """Divides the places of this version among the clients that are expected."""
        if self._synchronous or self._most is not None:
            return
        expected = max(1, len(self.present) - len(self._silent))
        places = fair_places(self._buffer, expected)
        if places == self._places:
            return
        line = self._held if places > self._places else self._free
        self._places = places
        for cid in list(line):
            self._line_up(cid)

    @property
    def _may_begin(self) -> Mapping[str, None]:
        """The waiting clients that are neither held nor too far ahead of others."""
        if self._clocks is None:
            return self._free
        if not self._held:
            return self._clocks.free
        return {cid: None for cid in self._clocks.free if cid not in self._held}

    def _next_in_line(self) -> Collection[str]:
        """The waiting clients that may train where there is no cohort."""
        limit, waiting = self._concurrency, self._may_begin
        if limit is None:
            return list(waiting)
        room = limit - self.training
        if room <= 0 or not waiting:
            return ()
        return self._choose(waiting, room, self._key.fold_in(self._number))

    # ------------------------------------------------------------------ cohorts

    def _room(self, accepted: int) -> int:
        """Returns how many more clients the cohort of this version takes."""
        return self._cohort - self.training - len(self._invited) - accepted

    def _is_through(self, cid: str) -> bool:
        """Whether a client that is here will deliver nothing more to this version."""
        if cid in self.delivered or cid in self._silent:
            return True
        is_out = cid in self.busy or cid in self._invited
        return cid in self._members and not is_out

    def _invite(self, idle: dict[str, None], version: int, room: int) -> None:
        """Fills the cohort from idle clients, whether they wait or will pull.

        A random choice does not depend on who came first: with all clients present, a
        seed gives the same cohorts on any machine.
        """
        key = self._key.fold_in(version, self.attempt, self._number)
        for cid in self._choose(idle, room, key):
            del idle[cid]
            self._invited[cid] = None
            if cid in self.waiting:
                self._ready[cid] = None

    # ------------------------------------------------------------------ choices

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
        if learns or SORTING * len(idle) ** 2 < room * len(self.known):
            return self._sort_names(idle)
        if len(self._by_name) != len(self.known):
            self._by_name = self._sort_names(self.known)
        return self._by_name

    def _sort_names(self, cids: Collection[str]) -> list[str]:
        """Sorts by name, since a client's id is random."""
        return sorted(cids, key=lambda cid: (self._name_of(cid), cid))

    def _lease(self, cid: str, version: int) -> Lease:
        self._number += 1
        self.training += 1
        lease = Lease(cid, version, self._number)
        del self.waiting[cid]
        if self._synchronous:
            self._members[cid] = None
            del self._invited[cid]
        else:
            del self._free[cid]
        if self._clocks is not None:
            self._clocks.stop(cid)
        self.busy[cid] = lease
        self._newest[cid] = lease.number
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
            "newest": self._newest,
            "delivered": self.delivered,
            "places": self._places,
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
        self.training = sum(lease is not None for lease in self.busy.values())
        self._newest = dict(saved["newest"])
        self.delivered, self._places = dict(saved["delivered"]), saved["places"]
        self._number, self.attempt = saved["number"], saved["attempt"]
        if self._clocks is not None:
            self._clocks.load(saved["clocks"])
            for cid in self.waiting:
                self._clocks.wait(cid)
        self.validate()
