"""Who may train: random walks beside a plain account, and what each rule is for."""

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.actions import Lease
from fedcore.coordinator.leases import TRANSITIONS, ClientState, Leases
from fedcore.params import ParamSpec
from fedcore.recipes import FedAvg, FedBuff
from fedcore.rng import Key
from fedcore.selection import All

SPEC = ParamSpec.of({"w": np.zeros(2, np.float32)})
CLIENTS = tuple("abcdefg")


class Watched(Leases):
    """Leases of which each call must do what the table of transitions says."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return partial(self._checked, name, found) if name in TRANSITIONS else found

    def _checked(self, name: str, method: Any, *args: Any, **options: Any) -> Any:
        before = {cid: self.state_of(cid) for cid in CLIENTS}
        result = method(*args, **options)
        if name == "grant":
            touched = {lease.cid for lease in result}
        elif name in ("begin_version", "extend_cohort"):
            touched = set(CLIENTS) if self._synchronous else set()
        else:  # a lease that is not held does not expire
            touched = set() if (name, result) == ("expire", False) else {args[0]}
        for cid, state in before.items():
            expected = TRANSITIONS[name].get(state, state) if cid in touched else state
            assert self.state_of(cid) is expected, (name, cid, state)
        self.validate()
        return result


def leases(config: AlgorithmConfig, kind: type[Leases] = Leases) -> Leases:
    return kind(config.build(SPEC), Key.root(0), name_of=lambda cid: cid)


class Plain:
    """The same rules, with everything looked up among all clients each time."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        self.present: list[str] = []
        self.waiting: dict[str, None] = {}
        self.leases: dict[str, int | None] = {}  # None: ended, and not heard of since
        self.newest: dict[str, int] = {}  # the number of everyone's newest lease
        self.silent: set[str] = set()
        self.invited: set[str] = set()
        self.members: set[str] = set()  # who was given this version
        self.delivered: list[str] = []  # to this version, as often as each has
        self.clocks: dict[str, int] = {}
        self._slowest = 0

    @property
    def slowest(self) -> int:
        """Of those who hold up others; looked at after each change: it never falls."""
        here = {*self.present} - self.silent
        clocks = [self.clocks[cid] for cid in here if cid in self.joined]
        self._slowest = max(self._slowest, min(clocks, default=0))
        return self._slowest

    @property
    def joined(self) -> set[str]:
        """Who has asked for a task since it was last lost or silent."""
        return {*self._joined}

    _joined: frozenset[str] = frozenset()

    def join(self, cid: str) -> None:
        if cid not in self._joined:
            self.clocks[cid] = max(self.clocks.get(cid, 0), self.slowest)
            self._joined |= {cid}
            assert self.slowest >= 0

    def part(self, cid: str) -> None:
        self._joined -= {cid}
        assert self.slowest >= 0

    @property
    def may_begin(self) -> list[str]:
        ahead = self.config.ahead
        return [
            cid
            for cid in self.waiting
            if self.delivered.count(cid) < self.places
            and (ahead is None or self.clocks[cid] - self.slowest <= ahead)
        ]

    @property
    def places(self) -> int:
        if self.config.places is not None:
            return self.config.places
        expected = len({*self.present} - self.silent)
        return max(1, 2 * self.config.buffer // max(1, expected))

    @property
    def training(self) -> int:
        return sum(number is not None for number in self.leases.values())

    @property
    def ready(self) -> set[str]:
        return self.invited & self.waiting.keys()

    def room(self, accepted: int) -> int:
        return self.config.cohort - self.training - len(self.invited) - accepted

    def arrive(self, cid: str) -> None:
        if cid not in self.present:
            self.present.append(cid)
        self.silent.discard(cid)
        if self.leases.pop(cid, None) is not None and self.config.synchronous:
            self.invited.add(cid)
        self.waiting.pop(cid, None)
        self.waiting[cid] = None
        self.join(cid)

    def withdraw(self, cid: str) -> None:
        if cid in self.waiting:
            del self.waiting[cid]
            self.part(cid)

    def fail(self, cid: str) -> None:
        self.stop(cid)
        if cid not in self.waiting:
            self.fall_silent(cid)

    def fall_silent(self, cid: str) -> None:
        self.silent.add(cid)
        self.invited.discard(cid)
        self.part(cid)

    def stop(self, cid: str) -> None:
        self.present = [other for other in self.present if other != cid] + [cid]
        self.leases.pop(cid, None)
        if cid not in self._joined:
            self.clocks[cid] = max(self.clocks.get(cid, 0), self.slowest)
        self.clocks[cid] += 1
        assert self.slowest >= 0

    def deliver(self, cid: str) -> None:
        self.stop(cid)
        self.delivered.append(cid)
        self.invited.discard(cid)

    def refuse(self, cid: str) -> None:
        self.delivered.remove(cid)

    def lose(self, cid: str) -> bool:
        was_there = cid in self.present
        self.present = [other for other in self.present if other != cid]
        self.waiting.pop(cid, None)
        self.leases.pop(cid, None)
        self.silent.discard(cid)
        self.invited.discard(cid)
        self.part(cid)
        return was_there

    def expire(self, cid: str, number: int) -> bool:
        is_here = cid in {*self.present} - {*self.waiting} - self.silent
        if not is_here or self.newest.get(cid) != number:
            return False
        self.fall_silent(cid)
        if cid in self.leases:
            self.leases[cid] = None
        return True

    def begin_version(self) -> None:
        self.delivered = []
        if self.config.synchronous:
            self.invited, self.members = set(), set()
            self.leases = dict.fromkeys(self.leases)

    def extend_cohort(self) -> None:
        if self.config.synchronous:
            self.invited = set()
            self.leases = dict.fromkeys(self.leases)

    def is_settled(self, accepted: int) -> bool:
        if not self.config.synchronous or self.invited:
            return False
        others = self.fresh or self.tried or self.silent
        return self.room(accepted) <= 0 or not others

    def has_room(self, accepted: int) -> bool:
        if not self.config.synchronous:
            return bool(self.may_begin)
        some = self.fresh or self.tried
        return bool(self.ready) or (bool(some) and self.room(accepted) > 0)

    @property
    def is_complete(self) -> bool:
        """Whether everyone who is here is silent, has delivered, or had its chance."""
        if not self.config.synchronous or self.training:
            return False
        out = self.leases.keys() | self.invited | {*self.fresh}
        return not out - self.silent - {*self.delivered}

    def grant(self, accepted: int) -> set[str]:
        if len(self.present) < self.config.min_clients:
            return set()
        if self.config.synchronous:
            for idle in (self.fresh, self.tried):
                self.invited |= set(idle[: max(0, self.room(accepted))])
            chosen = self.ready
            self.members |= chosen
        else:
            limit = self.config.concurrency
            room = len(self.waiting) if limit is None else limit - self.training
            chosen = set(self.may_begin[: max(0, room)])
        for cid in chosen:
            self.leases[cid] = 0  # the number is the real one's to give
        self.invited -= chosen
        for cid in chosen:
            del self.waiting[cid]
        return chosen

    @property
    def fresh(self) -> list[str]:
        """Whoever is idle and had no chance yet; who has waited longest comes first."""
        busy = self.leases.keys() | self.invited | {*self.delivered} | self.members
        busy |= self.silent
        in_turn = [*self.waiting, *self.present]
        return [cid for cid in dict.fromkeys(in_turn) if cid not in busy]

    @property
    def tried(self) -> list[str]:
        """Whoever waits again after its chance came to nothing."""
        past = self.members - {*self.delivered} - self.invited
        return [cid for cid in self.waiting if cid in past]


WALK = ["arrive", "arrive", "deliver", "fail", "lose", "expire", "withdraw"]
CONFIGS = {
    "a cohort": FedAvg(buffer=3, min_clients=2, selection=All()),
    "a cohort with spares": FedAvg(buffer=2, over_selection=1.5, selection=All()),
    "a cohort of everyone": FedAvg(buffer=7, selection=All()),
    "a cohort of one": FedAvg(buffer=1, selection=All()),
    "whoever is there": FedBuff(buffer=3, min_clients=2, selection=All()),
    "two at a time": FedBuff(buffer=3, concurrency=2, selection=All()),
    "one place each": FedBuff(buffer=4, places=1, concurrency=3, selection=All()),
    "shares that change": FedBuff(buffer=6, selection=All()),
    "in step": FedBuff(buffer=3, ahead=0, selection=All()),
    "two tasks ahead": FedBuff(buffer=3, ahead=2, min_clients=2, selection=All()),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(6))
def test_a_random_walk_grants_what_a_plain_account_grants(name: str, seed: int) -> None:
    rng, config = random.Random(seed), CONFIGS[name]
    clients = CLIENTS[: 2 + seed]
    real, plain = leases(config, Watched), Plain(config)
    version = accepted = 0
    ended: list[tuple[str, int]] = [("a", 0)]  # leases of the past
    for _ in range(600):
        cid = rng.choice(clients)
        what = rng.choice(WALK)
        if what == "arrive":
            real.arrive(cid)
            plain.arrive(cid)
        elif what == "withdraw":
            real.withdraw(cid)
            plain.withdraw(cid)
        elif what == "lose":
            assert real.lose(cid) == plain.lose(cid)
        elif what == "deliver":
            real.deliver(cid)
            plain.deliver(cid)
            if rng.random() < 0.2:
                real.refuse(cid)
                plain.refuse(cid)
            else:
                accepted += 1
        elif what == "fail":
            real.fail(cid)
            plain.fail(cid)
        elif what == "expire":
            past = rng.choice(ended)
            assert real.expire(*past) == plain.expire(*past)
        assert real.is_complete == plain.is_complete
        if accepted >= config.buffer or (accepted and real.is_complete):
            version, accepted = version + 1, 0
            real.begin_version()
            plain.begin_version()
        elif rng.random() < 0.03:
            real.extend_cohort()
            plain.extend_cohort()
        if rng.random() < 0.05:  # what is saved is all that there is
            saved, real = real.dump(), leases(config, Watched)
            real.load(saved)
        assert real.is_settled(accepted) == plain.is_settled(accepted)
        assert real.has_room(accepted) == plain.has_room(accepted)
        if rng.random() < 0.3:
            continue  # several things happen before anybody is granted anything
        given = real.grant(version, accepted)
        assert {lease.cid for lease in given} == plain.grant(accepted)
        for lease in given:
            assert lease.version == version
            assert real.awaits(lease.cid, lease.number)
            plain.leases[lease.cid] = plain.newest[lease.cid] = lease.number
            ended.append((lease.cid, lease.number))
        assert list(real.present) == plain.present
        assert list(real.waiting) == list(plain.waiting)
        assert real.busy.keys() == plain.leases.keys()


def test_a_client_that_is_ahead_waits_for_the_slowest_one() -> None:
    real = leases(FedBuff(buffer=3, ahead=1))
    real.arrive("slow")
    real.grant(0, 0)
    for granted in (["fast"], ["fast"], []):  # its clock is 0, 1 and 2
        real.arrive("fast")
        given = [lease.cid for lease in real.grant(0, 0)]
        assert given == granted
        if given:
            real.deliver("fast")
    real.deliver("slow")
    assert [lease.cid for lease in real.grant(0, 0)] == ["fast"]


def test_nobody_waits_for_who_is_lost_or_late_or_new() -> None:
    for goes in ("lost", "late"):
        real = leases(FedBuff(buffer=3, ahead=0))
        for cid in ("slow", "fast"):
            real.arrive(cid)
        slow, _ = real.grant(0, 0)
        real.deliver("fast")
        real.arrive("fast")
        assert not real.grant(0, 0)
        if goes == "lost":
            real.lose("slow")
        else:
            real.expire("slow", slow.number)
        assert [lease.cid for lease in real.grant(0, 0)] == ["fast"]
        real.arrive("new")  # begins where the others are
        real.deliver("fast")
        real.arrive("fast")
        assert [lease.cid for lease in real.grant(0, 0)] == ["new"]


def test_nobody_waits_for_who_delivers_and_does_not_ask_again() -> None:
    real = leases(FedBuff(buffer=3, ahead=0))
    real.arrive("idle")
    (before,) = real.grant(0, 0)
    real.deliver("idle")
    real.arrive("idle")
    (lease,) = real.grant(0, 0)
    real.arrive("fast")
    real.grant(0, 0)
    real.deliver("fast")
    real.arrive("fast")
    assert not real.expire("idle", before.number)
    real.deliver("idle")
    assert [lease.cid for lease in real.grant(0, 0)] == ["fast"]
    real.deliver("fast")
    real.arrive("fast")
    assert not real.grant(0, 0)  # it may ask again at any time
    assert real.expire("idle", lease.number)
    real.deliver("idle")  # once more, without a lease
    assert [lease.cid for lease in real.grant(0, 0)] == ["fast"]


def test_a_lease_that_has_ended_ends_no_newer_one() -> None:
    real = leases(FedBuff(buffer=2, concurrency=1, selection=All()))
    real.arrive("a")
    (first,) = real.grant(0, 0)
    real.arrive("a")
    (second,) = real.grant(0, 0)
    for other in (first.number, second.number + 1):
        assert not real.expire("a", other)
        assert not real.awaits("a", other)
        assert not real.is_newest("a", other)
    assert real.awaits("a", second.number)
    assert real.is_newest("a", second.number)
    assert real.expire("a", second.number)
    assert not real.expire("a", second.number)


def test_no_two_leases_have_the_same_number() -> None:
    real = leases(FedBuff(buffer=2, selection=All()))
    for cid in CLIENTS:
        real.arrive(cid)
    numbers = [lease.number for lease in real.grant(7, 0)]
    real.arrive("a")
    numbers += [lease.number for lease in real.grant(7, 0)]
    assert len(set(numbers)) == len(CLIENTS) + 1


def drawn(real: Leases, version: int, count: int = 60) -> list[str]:
    """The cohort of one version, out of many clients that wait."""
    for number in range(count):
        real.arrive(f"c{number:02}")
    return sorted(lease.cid for lease in real.grant(version, 0))


def test_each_cohort_is_drawn_by_a_lot_of_its_own() -> None:
    config = FedAvg(buffer=5)
    assert drawn(leases(config), 0) == drawn(leases(config), 0)
    assert drawn(leases(config), 0) != drawn(leases(config), 1)
    melted = leases(config)
    melted.extend_cohort()
    again = leases(config)
    again.extend_cohort()
    again.extend_cohort()
    later = leases(config)
    later.extend_cohort()
    later.begin_version()
    assert len({tuple(drawn(one, 0)) for one in (leases(config), melted, again)}) == 3
    assert drawn(later, 0) == drawn(leases(config), 0)


def test_a_place_that_becomes_free_is_drawn_anew() -> None:
    """With the same lot for each place, the same few clients would train for ever."""
    real = leases(FedBuff(buffer=5, concurrency=1))
    chosen = set()
    for number in range(30):
        chosen |= {lease.cid for lease in (real.grant(0, 0) if number else ())}
        for cid in CLIENTS:
            real.arrive(cid)
    assert chosen == set(CLIENTS)


@pytest.mark.parametrize("known", [10, 300])
def test_a_draw_takes_only_clients_that_are_idle(known: int) -> None:
    """Few idle ones among many, and many among few: both ways to make the list."""
    real = leases(FedAvg(buffer=2))
    for number in range(known):
        real.arrive(f"c{number:03}")
    for number in range(known - 4):
        real.lose(f"c{number:03}")
    staying = {f"c{number:03}" for number in range(known - 4, known)}
    given = [lease.cid for lease in real.grant(0, 0)]
    assert len(given) == 2
    assert set(given) <= staying
    real.arrive("new")  # a name that was not there when the list was made
    for cid in staying:
        real.lose(cid)
    assert [lease.cid for lease in real.grant(0, 0)] == ["new"]


def test_what_is_saved_tells_who_trains_on_what() -> None:
    real = leases(FedBuff(buffer=2, concurrency=2, selection=All()))
    for cid in "abc":
        real.arrive(cid)
    real.grant(3, 0)
    real.expire("b", 2)
    real.extend_cohort()
    saved: Any = real.dump()
    again = leases(FedBuff(buffer=2, concurrency=2, selection=All()))
    again.load(saved)
    assert again.busy == {"a": Lease("a", 3, 1), "b": None}
    assert (again.waiting, again.attempt) == ({"c": None}, 1)
    assert again.grant(4, 0) == [Lease("c", 4, 3)]


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("clients that wait are here", {"present": []}),
        ("no client waits and is busy", {"waiting": ["a", "b"]}),
        ("numbers of leases differ", {"busy": [["a", [0, 1]], ["c", [0, 1]]]}),
        ("numbers of leases were given", {"number": 0}),
        ("places in a cohort are for cohorts", {"_invited": ["b"]}),
    ],
)
def test_what_breaks_an_invariant_is_not_loaded(name: str, broken: Any) -> None:
    real = leases(FedBuff(buffer=2, concurrency=1, selection=All()))
    for cid in "abc":
        real.arrive(cid)
    real.grant(0, 0)
    saved: Any = real.dump()
    again = leases(FedBuff(buffer=2, concurrency=1, selection=All()))
    with pytest.raises(AssertionError, match=name):
        again.load({**saved, **broken})


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("invited clients are here", {"_invited": ["z"]}),
        ("invited clients are not busy", {"_invited": ["a"]}),
        ("ready clients are invited and wait", {"_ready": ["c"]}),
        ("fresh clients have no other place", {"_fresh": []}),
        ("tried clients wait for another chance", {"_tried": ["c"]}),
        ("tried clients wait for another chance", {"_members": ["a", "b", "c"]}),
    ],
)
def test_what_breaks_an_invariant_of_cohorts_is_not_loaded(
    name: str, broken: Any
) -> None:
    config = FedAvg(buffer=2, selection=All())
    real, again = leases(config), leases(config)
    for cid in "abc":
        real.arrive(cid)
    real.grant(0, 0)
    saved: Any = real.dump()
    again.load(saved)
    with pytest.raises(AssertionError, match=name):
        again.load({**saved, **broken})


def test_each_state_has_its_transitions() -> None:
    assert {state for to in TRANSITIONS.values() for state in to.values()} == {
        *ClientState
    }


def test_a_client_delivers_to_a_version_of_a_cohort_once() -> None:
    real = leases(FedAvg(buffer=3), Watched)
    for cid in "ab":
        real.arrive(cid)
    assert len(real.grant(0, 0)) == 2
    real.deliver("a")
    real.arrive("a")
    assert not real.grant(0, 1)
    real.arrive("c")
    assert [lease.cid for lease in real.grant(0, 1)] == ["c"]
    real.begin_version()  # is for all who are here and idle
    assert [lease.cid for lease in real.grant(1, 0)] == ["a"]


@pytest.mark.parametrize("how", ["fail", "lose", "refuse", "expire"])
def test_whoever_does_not_deliver_is_replaced_by_another_client(how: str) -> None:
    real = leases(FedAvg(buffer=2, selection=All()), Watched)
    for cid in "abc":
        real.arrive(cid)
    first, _ = real.grant(0, 0)
    assert first.cid == "a"
    if how == "expire":
        real.expire("a", first.number)
    elif how == "refuse":
        real.deliver("a")
        real.refuse("a")
    else:
        getattr(real, how)("a")
    assert [lease.cid for lease in real.grant(0, 0)] == ["c"]
    real.arrive("a")  # and gets another chance only if nobody else is left
    assert not real.grant(0, 0)
    real.lose("c")
    assert [lease.cid for lease in real.grant(0, 0)] == ["a"]


def test_a_client_that_asks_again_while_it_trains_keeps_its_place() -> None:
    real = leases(FedAvg(buffer=1), Watched)
    for cid in "abcdefg":
        real.arrive(cid)
    (lease,) = real.grant(0, 0)
    for _ in range(20):
        real.arrive(lease.cid)
        assert [again.cid for again in real.grant(0, 0)] == [lease.cid]


def test_a_cohort_is_complete_when_nobody_is_left_who_can_deliver() -> None:
    real = leases(FedAvg(buffer=5, selection=All()), Watched)
    for cid in "abcd":
        real.arrive(cid)
    numbers = {lease.cid: lease.number for lease in real.grant(0, 0)}
    real.deliver("a")
    real.fail("b")
    real.lose("c")
    assert not real.is_complete  # d trains
    real.extend_cohort()
    assert not real.is_complete  # and still does, though its lease has ended
    real.expire("d", numbers["d"])
    assert real.is_complete
    real.arrive("e")
    assert not real.is_complete  # it can be given this version


def test_a_fast_client_gets_twice_its_fair_share_of_a_buffer() -> None:
    real = leases(FedBuff(buffer=6), Watched)
    for cid in "abcd":
        real.arrive(cid)
    assert len(real.grant(0, 0)) == 4
    for accepted in range(3):  # 6 / 4 is 1.5
        real.deliver("a")
        real.arrive("a")
        given = [lease.cid for lease in real.grant(0, accepted)]
        assert given == (["a"] if accepted < 2 else [])
    real.lose("b")  # now its share is 2
    assert [lease.cid for lease in real.grant(0, 3)] == ["a"]
    real.deliver("a")
    real.arrive("a")
    assert not real.grant(0, 4)
    real.begin_version()
    assert [lease.cid for lease in real.grant(1, 0)] == ["a"]


def test_clients_that_train_for_ever_leave_their_share_to_others() -> None:
    real = leases(FedBuff(buffer=4), Watched)
    for cid in "abcd":
        real.arrive(cid)
    numbers = {lease.cid: lease.number for lease in real.grant(0, 0)}
    for _ in range(2):
        real.deliver("a")
        real.arrive("a")
        real.grant(0, 0)
    assert real.state_of("a") is ClientState.WAITING
    for cid in "bcd":
        real.expire(cid, numbers[cid])
    assert [lease.cid for lease in real.grant(0, 0)] == ["a"]


@pytest.mark.parametrize("clients", range(1, 12))
@pytest.mark.parametrize("buffer", [1, 2, 3, 5, 10])
def test_a_buffer_fills_whoever_is_there(clients: int, buffer: int) -> None:
    """The places of all clients together are never fewer than the buffer has."""
    real = leases(FedBuff(buffer=buffer), Watched)
    names = [f"c{number}" for number in range(clients)]
    for accepted in range(buffer):
        for cid in names:
            if real.state_of(cid) not in (ClientState.TRAINING, ClientState.WAITING):
                real.arrive(cid)
        real.grant(0, accepted)
        busy = [cid for cid in names if real.state_of(cid) is ClientState.TRAINING]
        real.deliver(busy[0])
        shares = max(1, 2 * buffer // clients)
        assert max(real.delivered.values()) <= shares
