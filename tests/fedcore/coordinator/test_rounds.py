"""Rounds alone and inside the protocol: the same updates lead to the same model."""

import math
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedcore import algorithm as limits
from fedcore.aggregators import CoordinateMedian
from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator import Coordinator, Rounds
from fedcore.coordinator.actions import (
    Action,
    Finish,
    Lease,
    Persist,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Closed,
    Departed,
    Evaluated,
    Lost,
    Stepped,
    TimerFired,
)
from fedcore.coordinator.settings import StopConfig
from fedcore.coordinator.state import Flaw
from fedcore.measured import Measured
from fedcore.payloads import Payload, dense_payload
from fedcore.protocol import ModelName, Pull, Verdict
from fedcore.recipes import FedAsync, FedAvg, FedBuff, Oort
from fedcore.staleness import AdaSGD, Inverse, LabelBoost
from fedcore.typing import Counts
from fedcore.update_filters import FleetController
from tests.fedcore.coordinator.desk import EPOCH, FRESH, SPEC, Desk
from tests.protocol.photo import photo

NAMES = [f"c{number}" for number in range(6)]
CONFIGS: dict[str, AlgorithmConfig] = {
    "whoever is there": FedBuff(buffer=3, staleness=Inverse()),
    "so many at a time": FedBuff(buffer=3, concurrency=2, staleness_limit=1),
    "by samples": FedBuff(buffer=4, weigh_by="samples", samples_cap=3),
    "cohorts": FedAvg(buffer=3),
    "deadlines": FedAvg(buffer=3, minimum=2, deadline=5.0),
    "over-selection": FedAvg(buffer=2, over_selection=2.0, staleness_limit=1),
    "enough clients": FedBuff(buffer=2, min_clients=4),
    "mixing": FedAsync(buffer=2, staleness_limit=2),
    "median": FedBuff(buffer=3, aggregator=CoordinateMedian()),
    "labels": FedBuff(buffer=2, staleness=LabelBoost(inner=Inverse())),
    "dampening": FedBuff(buffer=2, staleness=AdaSGD(bootstrap=3, window=5)),
    "filter": FedBuff(buffer=2, update_filter=FleetController(size_percentile=30)),
}


class Arrived(NamedTuple):
    """An update that was delivered."""

    payload: Payload | None
    base: int
    samples: int
    counts: Counts | None
    client: str = ""
    steps: int = 1
    loss: float | None = None
    measured: Measured | None = None
    flaw: Flaw | None = None


class Direct:
    """A coordinator whose rounds are driven directly, and what it did last."""

    def __init__(self, config: AlgorithmConfig, stop: StopConfig, stacks: bool) -> None:
        self.config, self.stop, self.stacks = config, stop, stacks
        self.coordinator = self._new()
        self.actions: list[Action] = self.coordinator.begin(0.0)
        self.granted: list[Lease] = []
        self.inbox: list[tuple[Arrived, tuple[Any, int]]] = []
        self.decided: list[Verdict] = []
        for name in NAMES:
            event = ClientEnrolled(at=0.0, cid=name, name=name)
            self.coordinator.handle(event)

    @property
    def rounds(self) -> Rounds:
        return self.coordinator.rounds

    def _new(self) -> Coordinator:
        initial_D = np.zeros(SPEC.dim, np.float32)
        algorithm = self.config.build(SPEC)
        return Coordinator(algorithm, initial_D, epoch=EPOCH, stop=self.stop)

    def restart(self) -> list[SetTimer]:
        """Another process goes on where this one was; its deadline, if there is one."""
        old, self.coordinator = self.coordinator, self._new()
        self.coordinator.state.load(*old.state.dump())
        saved = old.rounds.dump()
        actions = self.rounds.load(saved)
        assert len(actions) == (saved["deadline"] is not None)
        assert self.rounds.dump() == saved
        return [action for action in actions if isinstance(action, SetTimer)]

    def ready(self, name: str, at: float) -> None:
        """It waits for a task."""
        leases = self.rounds.leases
        settled = self.rounds.is_settled and name in leases.delivered
        leases.arrive(name)
        self.actions = []
        self.grant(at)
        assert not (settled and self.granted)

    def grant(self, at: float) -> None:
        """Gives tasks to the clients that wait."""
        grants = self.rounds.grant(at)
        self.granted += grants.leases
        self.actions = [*self.actions, *grants.actions]

    def deliver(self, name: str, at: float, update: Arrived) -> None:
        """Its update is there."""
        values_D = dense_of(update)
        row: tuple[Any, int] = np.stack([values_D + 1, values_D]), 1
        if self.stacks:
            update = update._replace(payload=None)
        self.inbox.append((update, row))
        self.actions = []
        settled = self.rounds.is_settled
        if self.rounds.deliver(name, update.base):
            self.decide(at)
        else:
            self.grant(at)
            assert not (settled and self.granted)

    def decide(self, at: float) -> None:
        """On all that were delivered."""
        if not self.inbox:
            return
        updates, rows = zip(*self.inbox, strict=True)
        self.inbox = []
        decisions = self.rounds.enter(updates, at, rows if self.stacks else ())
        self.decided += [decision.verdict for decision in decisions]
        actions = [*self.rounds.advance(), *self.coordinator.pulls.answer()]
        self.actions = [*self.actions, *actions]
        self.grant(at)

    def feed(self, event: Any) -> None:
        """What is no client's doing."""
        self.actions = []
        self.decide(event.at)
        self._start([*self.actions, *self.coordinator.handle(event)])

    def proceed(self, at: float) -> None:
        """A lease has ended: others may train, or nobody is left who can deliver."""
        self.actions = []
        self.decide(at)
        self.coordinator.state.touch(at)
        self._start([*self.actions, *self.coordinator.proceed()])

    def _start(self, actions: list[Action]) -> None:
        self.actions = actions
        started = [a.lease for a in self.actions if isinstance(a, StartTask)]
        self.granted += started

    def given(self) -> dict[str, int]:
        """Who may train now, on which version."""
        granted, self.granted = self.granted, []
        for lease in granted:
            assert self.rounds.leases.awaits(lease.cid, lease.number)
            assert not self.rounds.leases.awaits(lease.cid, lease.number + 1)
        return {lease.cid: lease.version for lease in granted}


def dense_of(update: Arrived) -> Any:
    """What an update says."""
    assert update.payload is not None
    return update.payload.arrays["values"]


def told(actions: list[Action]) -> list[Any]:
    """What both sorts of coordinators say: versions, the end, and deadlines."""
    found: list[Any] = [
        action.record
        for action in actions
        if isinstance(action, Persist) and isinstance(action.record, Stepped | Closed)
    ]
    found += [action for action in actions if isinstance(action, Finish)]
    return found + [
        (action.timer, action.at)
        for action in actions
        if isinstance(action, SetTimer) and action.timer.kind == "deadline"
    ]


def models(coordinator: Any) -> Any:
    """What both sorts of coordinators hold beside the rows of clients."""
    state = coordinator.state
    scalars, arrays = state.dump()
    return photo([{**scalars, "clients": [], "at": 0.0}, arrays])


class Course:
    """Two servers, one with messages and one without, and the same clients."""

    def __init__(self, config: AlgorithmConfig, seed: int, stop: StopConfig) -> None:
        self.lot, self.names = random.Random(seed), NAMES
        self.desk = Desk(config, stop)
        self.desk.enrol(*NAMES)
        self.direct = Direct(config, stop, stacks=seed % 2 == 0)
        self.at = 0.0
        self.training: dict[str, int] = {}  # on which version
        self.late: dict[str, int] = {}  # whose lease has ended
        self.seqs = dict.fromkeys(NAMES, 0)
        self.accepted = 0

    def go(self, steps: int) -> None:
        """Whatever may happen, in any order."""
        for _ in range(steps):
            self.at += self.lot.choice([0.5, 1.0])
            self.desk.at = self.at
            name = self.lot.choice(self.names)
            what = self.lot.random()
            if what < 0.04:
                self.lose(name)
            elif what < 0.1 and self.training:
                self.expire(self.lot.choice(sorted(self.training)))
            elif what < 0.2 and any(t.kind == "deadline" for t in self.desk.timers):
                self.deadline()
            elif what < 0.25:
                for action in self.direct.restart():
                    assert self.desk.timers[action.timer] == action.at
                continue
            elif name in self.training or name in self.late:
                self.deliver(name)
            else:
                self.desk.pull(name)
                self.direct.ready(name, self.at)
            self.compare()

    def deliver(self, name: str) -> None:
        base = self.training.pop(name, self.late.get(name, 0))
        self.late.pop(name, None)
        self.seqs[name] += 1
        values = [float(self.lot.randrange(-4, 5)) for _ in range(SPEC.dim)]
        samples = self.lot.randrange(1, 6)
        counts = np.array([self.lot.randrange(3), 1, self.lot.randrange(9)])
        self.desk.push(
            name, self.seqs[name], values, base=base, samples=samples, counts=counts
        )
        self.accepted += self.desk.ack.answer is Verdict.ACCEPTED
        payload = dense_payload(np.array(values, np.float32))
        update = Arrived(payload, base, samples, counts, name)
        before = len(self.direct.decided)
        self.direct.deliver(name, self.at, update)
        if len(self.direct.decided) > before:
            assert self.direct.decided[-1] is self.desk.ack.answer

    def expire(self, name: str) -> None:
        lease = self.direct.rounds.leases.busy[name]
        self.late[name] = self.training.pop(name)
        if lease is None:  # it was of an earlier cohort
            self.desk.actions = self.direct.actions = []
            return
        timers = [t for t in self.desk.timers if (t.kind, t.subject) == ("lease", name)]
        newest = max(timers, key=lambda timer: timer.number)
        self.desk.feed(TimerFired(at=self.at, timer=newest))
        leases = self.direct.rounds.leases
        assert leases.expire(name, lease.number)
        self.direct.proceed(self.at)
        assert not leases.awaits(name, lease.number)

    def lose(self, name: str) -> None:
        self.training.pop(name, None)
        self.late.pop(name, None)
        self.desk.lose(name)
        self.direct.feed(Lost(at=self.at, cid=name))

    def deadline(self) -> None:
        at, timer = min(
            (at, t) for t, at in self.desk.timers.items() if t.kind == "deadline"
        )
        del self.desk.timers[timer]
        self.at = self.desk.at = max(self.at, at)
        event = TimerFired(at=self.at, timer=timer)
        self.desk.feed(event)
        self.direct.feed(event)

    def compare(self) -> None:
        """Both did the same, but for updates that wait."""
        one, other = self.desk.coordinator, self.direct.coordinator
        one.rounds.leases.validate()
        other.rounds.leases.validate()
        given = self.direct.given()
        assert given == dict.fromkeys(self.desk.given, one.state.version)
        self.training |= given
        assert told(self.direct.actions) == told(self.desk.actions)
        waiting = len(self.direct.inbox)
        assert one.state.count == other.state.count + waiting
        if not waiting:
            assert models(other) == models(one)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CONFIGS)
def test_rounds_alone_come_to_what_messages_come_to(name: str, seed: int) -> None:
    course = Course(CONFIGS[name], seed, StopConfig())
    course.go(150)
    assert course.desk.version > 3


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("stop", [{"updates": 11}, {"versions": 4}])
def test_rounds_alone_end_where_messages_end(name: str, stop: dict[str, int]) -> None:
    course = Course(CONFIGS[name], 7, StopConfig(**stop))
    course.go(150)
    assert course.direct.coordinator.state.closed


class Busy(Course):
    """A course on which clients join and leave as they like, by the dozen."""

    def __init__(self, config: AlgorithmConfig, seed: int) -> None:
        super().__init__(config, seed, StopConfig())
        self.names = [*NAMES]
        self.limits: set[tuple[int, int]] = set()

    def go(self, steps: int) -> None:
        for _ in range(steps):
            what = self.lot.random()
            if what < 0.06:
                self.join()
            elif what < 0.1 and len(self.names) > 1:
                self.leave(self.names.pop(self.lot.randrange(len(self.names))))
            else:
                super().go(1)
            state = self.desk.coordinator.state
            self.limits.add((state.version, state.limit))

    def join(self) -> None:
        for _ in range(self.lot.choice([1, 1, 8])):
            name = f"c{len(self.seqs)}"
            self.seqs[name] = 0
            self.names.append(name)
            self.desk.enrol(name)
            self.direct.feed(ClientEnrolled(at=self.at, cid=name, name=name))
        self.compare()

    def leave(self, name: str) -> None:
        self.training.pop(name, None)
        self.late.pop(name, None)
        event = Departed(at=self.at, cid=name)
        self.desk.feed(event)
        self.direct.feed(event)
        self.compare()


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_that_moves_within_a_version_is_the_same_for_both(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEAST_LIMIT", 0)
    monkeypatch.setattr(limits, "TIMES_LATE", 1)
    course = Busy(FedBuff(buffer=5, concurrency=20), seed)
    course.go(500)
    verdicts = set(course.direct.decided)
    assert verdicts == {Verdict.ACCEPTED, Verdict.REJECTED_STALE}
    assert len(course.limits) > len({version for version, _ in course.limits})


def test_an_evaluator_waits_for_as_long_as_it_takes() -> None:
    direct = Direct(FedBuff(buffer=2), StopConfig(), stacks=False)
    direct.feed(ClientEnrolled(at=0.0, cid="judge", name="judge", role="evaluator"))
    pull = Pull(cid="judge", nonce=1, epoch=EPOCH)
    for tasks in (1, 0):
        direct.feed(ClientPulled(at=1.0, pull=pull, fresh_epoch=FRESH))
        assert sum(isinstance(each, SendReply) for each in direct.actions) == tasks
        values = {"accuracy": 0.1}
        direct.feed(Evaluated(at=2.0, cid="judge", version=0, values=values, samples=1))


def rounds_of(config: AlgorithmConfig, **stop: Any) -> Rounds:
    """The rounds of clients of which nobody has asked for a task yet."""
    return Direct(config, StopConfig(**stop), stacks=False).rounds


def ones(base: int) -> Arrived:
    """An update."""
    return Arrived(dense_payload(np.ones(SPEC.dim, np.float32)), base, 1, None)


def test_updates_wait_until_the_buffer_is_full_if_they_certainly_count() -> None:
    rounds = rounds_of(FedBuff(buffer=3, staleness_limit=1))
    for version in range(3):
        bases = [max(0, version - 1), version, version]
        assert [rounds.deliver("c0", base) for base in bases] == [False, False, True]
        decisions = rounds.enter(list(map(ones, bases)), 1.0)
        rounds.advance()
        assert [each.staleness for each in decisions] == [version - b for b in bases]
        assert rounds.state.version == version + 1
    assert rounds.deliver("c0", 1)  # too late, it may be


def test_updates_that_were_entered_early_leave_less_room() -> None:
    rounds = rounds_of(FedBuff(buffer=3))
    assert not rounds.deliver("c0", 0)
    rounds.enter([ones(0)], 1.0)
    assert [rounds.deliver("c0", 0) for _ in range(2)] == [False, True]


def test_the_last_update_of_a_run_is_decided_on_at_once() -> None:
    rounds = rounds_of(FedBuff(buffer=3), updates=5)
    for size in (3, 2):
        waits = [rounds.deliver("c0", 0) for _ in range(size)]
        assert waits == [False] * (size - 1) + [True]
        rounds.enter([ones(0)] * size, 1.0)
        rounds.advance()
    assert rounds.state.closed == "5 updates"
    assert rounds.deliver("c0", 0)


@pytest.mark.parametrize(
    "config", [FedAsync(buffer=3), FedBuff(buffer=3, update_filter=FleetController())]
)
def test_an_update_that_may_be_refused_is_decided_on_at_once(
    config: AlgorithmConfig,
) -> None:
    assert rounds_of(config).deliver("c0", 0)


def test_nobody_gets_a_task_while_the_cohort_trains() -> None:
    rounds = rounds_of(FedAvg(buffer=1))
    for name in ("c0", "c1"):
        rounds.leases.arrive(name)
    assert not rounds.is_settled
    assert len(rounds.grant(0.0).leases) == 1
    assert rounds.is_settled
    assert rounds.grant(0.0) == ((), (), ())
    rounds.close("over")
    assert not rounds.is_settled  # the next update is rejected


@pytest.mark.parametrize(
    ("push", "verdict"),
    [
        ({"values": [math.nan] * 4}, Verdict.DISCARDED),
        ({"payload": b"junk"}, Verdict.REJECTED_MALFORMED),
        ({"base": ModelName(EPOCH, -1)}, Verdict.REJECTED_MALFORMED),
        ({"samples": 0}, Verdict.REJECTED_MALFORMED),
    ],
)
def test_updates_that_cannot_be_used_leave_nobody_unknown_to_the_selection(
    push: dict[str, Any], verdict: Verdict
) -> None:
    desk = Desk(Oort(buffer=2))
    desk.enrol("a", "b")
    desk.push("a", 1, loss=1.0, steps=1)
    desk.push("b", 1, loss=9.0, steps=1, **push)
    assert desk.ack.answer is verdict
    assert desk.coordinator.state.learnt.selection.clients == {
        "a": (1.0, 0.0, 1),
        "b": (0.0, 0.0, 1),
    }
