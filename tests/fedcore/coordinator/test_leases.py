"""Who may train: random walks beside a plain account, and what each rule is for."""

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.leases import TRANSITIONS, ClientState, Lease, Leases
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
        elif name == "new_cohort":
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
        self.invited: set[str] = set()
        self.delivered: list[str] = []
        self.number = 0
        self.clocks: dict[str, int] = {}
        self._slowest = 0
        self.here: set[str] = set()  # who holds up others
        self.begun: dict[str, int] = {}  # the number of everyone's newest lease

    @property
    def slowest(self) -> int:
        """Of those who hold up others; looked at after each change: it never falls."""
        clocks = [self.clocks[cid] for cid in self.here]
        self._slowest = max(self._slowest, min(clocks, default=0))
        return self._slowest

    def join(self, cid: str) -> None:
        if cid not in self.here:
            self.clocks[cid] = max(self.clocks.get(cid, 0), self.slowest)
            self.here.add(cid)
            assert self.slowest >= 0

    @property
    def may_begin(self) -> list[str]:
        ahead = self.config.ahead
        return [
            cid
            for cid in self.waiting
            if ahead is None or self.clocks[cid] - self.slowest <= ahead
        ]

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
        self.leases.pop(cid, None)
        self.waiting.pop(cid, None)
        self.waiting[cid] = None
        self.join(cid)

    def withdraw(self, cid: str) -> None:
        if cid in self.waiting:
            del self.waiting[cid]
            self.here.discard(cid)
            assert self.slowest >= 0

    def deliver(self, cid: str) -> None:
        self.present = [other for other in self.present if other != cid] + [cid]
        self.leases.pop(cid, None)
        if cid not in self.delivered:
            self.delivered.append(cid)
        if cid not in self.here:
            self.clocks[cid] = max(self.clocks.get(cid, 0), self.slowest)
        self.clocks[cid] += 1
        assert self.slowest >= 0

    def lose(self, cid: str) -> bool:
        was_there = cid in self.present
        self.present = [other for other in self.present if other != cid]
        self.waiting.pop(cid, None)
        self.leases.pop(cid, None)
        self.invited.discard(cid)
        self.here.discard(cid)
        assert self.slowest >= 0
        return was_there

    def expire(self, cid: str, number: int) -> bool:
        is_newest = self.begun.get(cid, number) == number
        is_over = cid in self.here - {*self.waiting} and is_newest
        if is_over:
            self.here.discard(cid)
            assert self.slowest >= 0
        if self.leases.get(cid) != number:
            return is_over and self.config.ahead is not None
        self.leases[cid] = None
        return True

    def new_cohort(self) -> None:
        if self.config.synchronous:
            self.delivered, self.invited = [], set()
            self.leases = dict.fromkeys(self.leases)

    def is_settled(self, accepted: int) -> bool:
        return self.config.synchronous and not self.invited and self.room(accepted) <= 0

    def has_room(self, accepted: int) -> bool:
        if not self.config.synchronous:
            return bool(self.may_begin)
        return bool(self.ready) or self.room(accepted) > 0

    def grant(self, accepted: int) -> set[str]:
        if len(self.present) < self.config.min_clients:
            return set()
        if self.config.synchronous:
            self.invited |= set(self._idle()[: max(0, self.room(accepted))])
            chosen = self.ready
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

    def _idle(self) -> list[str]:
        """Whoever has waited longest comes first, those who have delivered last."""
        free = [c for c in self.present if c not in self.leases.keys() | self.invited]
        waiting = [cid for cid in self.waiting if cid in free]
        in_turn = waiting + [cid for cid in free if cid not in waiting]
        fresh = [cid for cid in in_turn if cid not in self.delivered]
        return fresh if self.config.once else fresh or in_turn


CONFIGS = {
    "a cohort": FedAvg(buffer=3, min_clients=2, selection=All()),
    "a cohort with spares": FedAvg(buffer=2, over_selection=1.5, selection=All()),
    "a cohort that trains once": FedAvg(buffer=4, once=True, selection=All()),
    "a cohort of one": FedAvg(buffer=1, selection=All()),
    "whoever is there": FedBuff(buffer=3, min_clients=2, selection=All()),
    "two at a time": FedBuff(buffer=3, concurrency=2, selection=All()),
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
        what = rng.choice(["arrive", "arrive", "deliver", "lose", "expire", "withdraw"])
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
            accepted += 1
        elif what == "expire":
            past = rng.choice(ended)
            assert real.expire(*past) == plain.expire(*past)
        if accepted >= config.buffer or rng.random() < 0.03:
            version += accepted >= config.buffer
            real.new_cohort(same_version=accepted < config.buffer)
            plain.new_cohort()
            accepted = accepted % config.buffer
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
            assert real.holds(lease.cid, lease.number)
            plain.leases[lease.cid] = plain.begun[lease.cid] = lease.number
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
        assert not real.holds("a", other)
    assert real.holds("a", second.number)
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
    melted.new_cohort(same_version=True)
    again = leases(config)
    again.new_cohort(same_version=True)
    again.new_cohort(same_version=True)
    later = leases(config)
    later.new_cohort(same_version=True)
    later.new_cohort(same_version=False)
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
    real.new_cohort(same_version=True)
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
        ("places are for cohorts", {"_invited": ["b"]}),
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


def test_each_state_has_its_transitions() -> None:
    assert {state for to in TRANSITIONS.values() for state in to.values()} == {
        *ClientState
    }


def test_a_bound_on_who_is_ahead_may_begin_in_the_middle_of_a_run() -> None:
    before, after = leases(FedBuff(buffer=3)), leases(FedBuff(buffer=3, ahead=0))
    for cid in ("slow", "fast", "late"):
        before.arrive(cid)
    number = {lease.cid: lease.number for lease in before.grant(0, 0)}
    before.expire("late", number["late"])
    before.deliver("fast")
    before.arrive("fast")
    after.load(before.dump())
    after.validate()
    assert [lease.cid for lease in after.grant(0, 0)] == ["fast"]
    after.deliver("fast")
    after.arrive("fast")
    assert not after.grant(0, 0)  # it waits for the slow one, and not for the late one
    after.deliver("slow")
    assert [lease.cid for lease in after.grant(0, 0)] == ["fast"]


@pytest.mark.parametrize("once", [False, True])
def test_a_client_trains_a_version_again_unless_it_trains_it_once(once: bool) -> None:
    real = leases(FedAvg(buffer=3, once=once), Watched)
    for cid in "ab":
        real.arrive(cid)
    assert len(real.grant(0, 0)) == 2
    real.deliver("a")
    real.arrive("a")
    assert [lease.cid for lease in real.grant(0, 1)] == ([] if once else ["a"])
    real.arrive("c")
    assert [lease.cid for lease in real.grant(0, 1)] == (["c"] if once else [])
    real.new_cohort(same_version=False)
    if once:  # a new version is for all who are here and idle
        assert [lease.cid for lease in real.grant(1, 0)] == ["a"]
