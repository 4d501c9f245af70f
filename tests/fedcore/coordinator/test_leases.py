"""Who may train: random walks beside a plain account, and what each rule is for."""

import random
from typing import Any

import numpy as np
import pytest

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.leases import Lease, Leases
from fedcore.params import ParamSpec
from fedcore.recipes import FedAvg, FedBuff
from fedcore.rng import Key
from fedcore.selection import All

SPEC = ParamSpec.of({"w": np.zeros(2, np.float32)})
CLIENTS = tuple("abcdefg")


def leases(config: AlgorithmConfig) -> Leases[str]:
    return Leases(config.build(SPEC), Key.root(0), name_of=lambda cid: cid)


class Plain:
    """The same rules, with everything looked up among all clients each time."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        self.present: list[str] = []
        self.parked: dict[str, str] = {}
        self.leases: dict[str, int | None] = {}  # None: ended, and not heard of since
        self.invited: set[str] = set()
        self.delivered: list[str] = []
        self.number = 0

    @property
    def training(self) -> int:
        return sum(number is not None for number in self.leases.values())

    @property
    def ready(self) -> set[str]:
        return self.invited & self.parked.keys()

    def room(self, accepted: int) -> int:
        return self.config.cohort - self.training - len(self.invited) - accepted

    def arrive(self, cid: str, wish: str) -> None:
        if cid not in self.present:
            self.present.append(cid)
        self.leases.pop(cid, None)
        self.parked.pop(cid, None)
        self.parked[cid] = wish

    def withdraw(self, cid: str) -> str | None:
        return self.parked.pop(cid, None)

    def deliver(self, cid: str) -> None:
        self.present = [other for other in self.present if other != cid] + [cid]
        self.leases.pop(cid, None)
        if cid not in self.delivered:
            self.delivered.append(cid)

    def lose(self, cid: str) -> bool:
        was_there = cid in self.present
        self.present = [other for other in self.present if other != cid]
        self.parked.pop(cid, None)
        self.leases.pop(cid, None)
        self.invited.discard(cid)
        return was_there

    def expire(self, cid: str, number: int) -> bool:
        if self.leases.get(cid) != number:
            return False
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
            return bool(self.parked)
        return bool(self.ready) or self.room(accepted) > 0

    def grant(self, accepted: int) -> set[tuple[str, str]]:
        if len(self.present) < self.config.min_clients:
            return set()
        if self.config.synchronous:
            self.invited |= set(self._idle()[: max(0, self.room(accepted))])
            chosen = self.ready
        else:
            limit = self.config.concurrency
            room = len(self.parked) if limit is None else limit - self.training
            chosen = set(list(self.parked)[: max(0, room)])
        for cid in chosen:
            self.leases[cid] = 0  # the number is the real one's to give
        self.invited -= chosen
        return {(cid, self.parked.pop(cid)) for cid in chosen}

    def _idle(self) -> list[str]:
        """Whoever has waited longest comes first, those who have delivered last."""
        free = [c for c in self.present if c not in self.leases.keys() | self.invited]
        waiting = [cid for cid in self.parked if cid in free]
        in_turn = waiting + [cid for cid in free if cid not in waiting]
        fresh = [cid for cid in in_turn if cid not in self.delivered]
        return fresh or in_turn


CONFIGS = {
    "a cohort": FedAvg(buffer=3, min_clients=2, selection=All()),
    "a cohort with spares": FedAvg(buffer=2, over_selection=1.5, selection=All()),
    "a cohort of one": FedAvg(buffer=1, selection=All()),
    "whoever is there": FedBuff(buffer=3, min_clients=2, selection=All()),
    "two at a time": FedBuff(buffer=3, concurrency=2, selection=All()),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(6))
def test_a_random_walk_grants_what_a_plain_account_grants(name: str, seed: int) -> None:
    rng, config = random.Random(seed), CONFIGS[name]
    clients = CLIENTS[: 2 + seed]
    real, plain = leases(config), Plain(config)
    version = accepted = 0
    ended: list[tuple[str, int]] = [("a", 0)]  # leases of the past
    for number in range(600):
        cid = rng.choice(clients)
        what = rng.choice(["arrive", "arrive", "deliver", "lose", "expire", "withdraw"])
        if what == "arrive":
            real.arrive(cid, f"wish {number}")
            plain.arrive(cid, f"wish {number}")
        elif what == "withdraw":
            assert real.withdraw(cid) == plain.withdraw(cid)
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
            saved, real = real.dump(), leases(config)
            real.load(saved, "again")
            plain.parked = dict.fromkeys(plain.parked, "again")
        assert real.is_settled(accepted) == plain.is_settled(accepted)
        assert real.has_room(accepted) == plain.has_room(accepted)
        if rng.random() < 0.3:
            continue  # several things happen before anybody is granted anything
        given = real.grant(version, accepted)
        assert {(cid, wish) for cid, wish, _ in given} == plain.grant(accepted)
        for cid, _, lease in given:
            assert lease.version == version
            assert real.holds(cid, lease.number)
            plain.leases[cid] = lease.number
            ended.append((cid, lease.number))
        assert list(real.present) == plain.present
        assert list(real.parked) == list(plain.parked)
        assert real.busy.keys() == plain.leases.keys()


def test_a_lease_that_has_ended_ends_no_newer_one() -> None:
    real = leases(FedBuff(buffer=2, concurrency=1, selection=All()))
    real.arrive("a", "")
    ((_, _, first),) = real.grant(0, 0)
    real.arrive("a", "")
    ((_, _, second),) = real.grant(0, 0)
    for other in (first.number, second.number + 1):
        assert not real.expire("a", other)
        assert not real.holds("a", other)
    assert real.holds("a", second.number)
    assert real.expire("a", second.number)
    assert not real.expire("a", second.number)


def test_no_two_leases_have_the_same_number() -> None:
    real = leases(FedBuff(buffer=2, selection=All()))
    for cid in CLIENTS:
        real.arrive(cid, "")
    numbers = [lease.number for _, _, lease in real.grant(7, 0)]
    real.arrive("a", "")
    numbers += [lease.number for _, _, lease in real.grant(7, 0)]
    assert len(set(numbers)) == len(CLIENTS) + 1


def drawn(real: Leases[str], version: int, count: int = 60) -> list[str]:
    """The cohort of one version, out of many clients that wait."""
    for number in range(count):
        real.arrive(f"c{number:02}", "")
    return sorted(cid for cid, _, _ in real.grant(version, 0))


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
        chosen |= {cid for cid, _, _ in (real.grant(0, 0) if number else ())}
        for cid in CLIENTS:
            real.arrive(cid, "")
    assert chosen == set(CLIENTS)


@pytest.mark.parametrize("known", [10, 300])
def test_a_draw_takes_only_clients_that_are_idle(known: int) -> None:
    """Few idle ones among many, and many among few: both ways to make the list."""
    real = leases(FedAvg(buffer=2))
    for number in range(known):
        real.arrive(f"c{number:03}", "")
    for number in range(known - 4):
        real.lose(f"c{number:03}")
    staying = {f"c{number:03}" for number in range(known - 4, known)}
    given = [cid for cid, _, _ in real.grant(0, 0)]
    assert len(given) == 2
    assert set(given) <= staying
    real.arrive("new", "")  # a name that was not there when the list was made
    for cid in staying:
        real.lose(cid)
    assert [cid for cid, _, _ in real.grant(0, 0)] == ["new"]


def test_what_is_saved_tells_who_trains_on_what() -> None:
    real = leases(FedBuff(buffer=2, concurrency=2, selection=All()))
    for cid in "abc":
        real.arrive(cid, "")
    real.grant(3, 0)
    real.expire("b", 2)
    real.new_cohort(same_version=True)
    saved: Any = real.dump()
    again = leases(FedBuff(buffer=2, concurrency=2, selection=All()))
    again.load(saved, "wish")
    assert again.busy == {"a": Lease(3, 1), "b": None}
    assert (again.parked, again.attempt) == ({"c": "wish"}, 1)
    assert again.grant(4, 0) == [("c", "wish", Lease(4, 3))]
