"""Simulated clients by the thousand: what happens to each of them, and when.

A client is a row of a few lists: it waits, gets a model, trains, uploads, and is told
the verdict, or it is lost on the way (:class:`fedsim.fates.Fates`) and comes again.
Times come from the population, decisions from the server's rounds, updates from the
work.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop

from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import Event
from fedcore.coordinator.leases import Lease
from fedcore.errors import DivergedError, LatecomerError, UserCodeError
from fedcore.participant import work_after
from fedcore.pool import Pool
from fedcore.protocol import Verdict
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds, Vector
from fedcore.workload import Client, Workload
from fedrun.callbacks import UpdatesDecided
from fedsim.evaluator import EvaluateModel
from fedsim.fates import (
    ARRIVES,
    DROPS,
    FAILS,
    FINISHES,
    READY,
    REPORTS,
    RETRY,
    UPLOADS,
    Fates,
    order_of_coming,
)
from fedsim.population import Population
from fedsim.stacked.allocator import few_collections
from fedsim.stacked.client_data import ClientData
from fedsim.stacked.downloads import Downloads
from fedsim.stacked.event_queue import NEVER, EventQueue
from fedsim.stacked.own_evaluations import OwnEvaluations
from fedsim.stacked.pending_updates import Given, PendingUpdates, unfinished
from fedsim.stacked.run_log import RunLog
from fedsim.stacked.snapshots import Saved, Snapshots
from fedsim.stacked.stack import Stack
from fedsim.stacked.work import Waiting, Work
from fedsim.world import Alarm, World

# The lists that a resumed run begins with; what follows from data is read again.
_BY_CLIENT = (
    "_there",
    "_seq",
    "_tasks",
    "_attempts",
    "_pending",
    "_arrivals",
    "_held",
)


class StackedClients:
    """All clients of a world."""

    def __init__(
        self,
        world: World,
        population: Population,
        workload: Workload,
        pool: Pool,
        work: Work,
        evaluate: EvaluateModel | None,
    ) -> None:
        """``evaluate`` is what clients evaluate with, where they do."""
        coordinator = world.run.coordinator
        self._world, self._clock = world, world.clock
        self._coordinator, self._state = coordinator, coordinator.state
        self._rounds, self._leases = coordinator.rounds, coordinator.rounds.leases
        self._granted: list[Lease] = []  # after events of the coordinator
        self._population, self._work = population, work
        self._lease, self._lost = coordinator.timeouts.lease, coordinator.timeouts.lost
        count = self.count = population.count
        self._names = population.names
        self._places = {name: place for place, name in enumerate(self._names)}
        self._latency = [population.latency(who) for who in range(count)]
        self._direct = self._is_direct()
        self._in_rows = (
            self._direct
            and coordinator.algorithm.config.synchronous
            and not world.run.config.simulate.ack_loss
        )
        self._queue = EventQueue(self._clock, count)
        self._life, self._at = self._queue.life, self._queue.put
        self._fates = fates = Fates(
            world, population, self._names, self._life, self._at, self
        )
        self._there, self._failures = fates.is_there, fates.failures
        self._tasks, self._attempts = fates.tasks, fates.attempts
        self._seq = [0] * count  # messages that were made
        self._pending = [False] * count  # whether there is such a message
        self._arrivals = [0] * count  # how often it has arrived
        self._held = [0] * count  # versions
        self._share: dict[int, float] = {}  # of the work, where it is not all of it
        self._given: dict[int, Given] = {}
        self._refused: dict[int, Verdict] = {}  # until it is told; others are accepted
        self._errors: dict[int, LatecomerError] = {}  # that are not told yet
        self._evaluations = OwnEvaluations(
            evaluate, coordinator.evaluations, population.client
        )
        self._downloads = Downloads(self._state.published)
        self._log = RunLog(world, self._names, population.place)
        self._updates = PendingUpdates(self._rounds, self._log, self._names)
        self._data = ClientData(
            workload,
            pool,
            population.client,
            coordinator.algorithm.config.client,
            count,
        )
        engine = world.run.config.simulate.engine
        self._snapshots = Snapshots(world.run, self.dump, engine.snapshot_seconds)
        self._handlers: tuple[Callable[[int], None], ...] = (
            self._arrive,
            self._acknowledged,
            self._finish,
            self.upload,
            fates.begin,
            fates.leave,
            fates.drop_out,
            fates.miss,
            self._fail,
            self._report,
        )
        if population.needs_labels:
            population.show_labels(self._data.label_counts)
        world.closing.append(self._end)
        world.follow, world.start = self._follow, self._granted.append

    def clients(self) -> Iterator[Client]:
        """All of them, one after the other."""
        return map(self._population.client, range(self.count))

    def _is_direct(self) -> bool:
        """Whether it is known when a task is given when its update will arrive."""
        return (
            self._work.fixed_bytes is not None
            and not self._world.run.config.simulate.upload_loss
            and not self._population.comes_and_goes
        )

    def begin(self) -> None:
        """Everyone is enrolled, and comes who is there."""
        self._log.enrol()
        algorithm = self._coordinator.algorithm.config
        for who in order_of_coming(algorithm, self._population):
            self._fates.begin(who)

    # --------------------------------------------------------------------- time

    def execute(self, is_over: Callable[[], bool]) -> None:
        """Lets things happen until it is over or nothing happens any more.

        Its queues of events are merged with the timers and the evaluator of the
        world.
        """
        with self._world.interrupts.held(), few_collections():
            self._run(is_over)

    def _run(self, is_over: Callable[[], bool]) -> None:
        world, clock = self._world, self._clock
        interrupts, snapshots = world.interrupts, self._snapshots
        events, acks, expiries = (
            self._queue.events,
            self._queue.acks,
            self._queue.expiries,
        )
        others, handlers, lives = clock.queue, self._handlers, self._life
        in_rows = self._in_rows
        while events or acks or others:
            if interrupts.came or snapshots.due:
                snapshots.take()
                if interrupts.came:
                    return
            is_ack = bool(acks) and (not events or acks[0] < events[0])
            first = acks[0] if is_ack else events[0] if events else NEVER
            if (
                expiries
                and expiries[0] < first
                and (not others or expiries[0][:2] < others[0][:2])
            ):
                self._expire()
                continue
            if others and others[0][0] <= first[0] and others[0][:2] < first[:2]:
                alarm = others[0][2]
                if self._updates and not (isinstance(alarm, Alarm) and alarm.is_void):
                    self._decide()
                    continue
                what = clock.next()
                assert what is not None
                what()
            elif not in_rows or first[2] != ARRIVES or not self._arrive_in_a_row():
                when, _, kind, who, life = acks.popleft() if is_ack else heappop(events)
                if lives[who] == life:
                    clock.now = when
                    handlers[kind](who)
            if (world.ended is not None or world.failures) and is_over():
                return

    def _do(self, actions: list[Action]) -> None:
        """Carries out what follows from an event."""
        if actions:
            self._world.carry_out_now(actions)
        self._follow()

    def _follow(self) -> None:
        """Does what follows from a new version and from granted tasks."""
        if self._state.version != self._downloads.version:
            self._downloads.step_made()
            self._log.flush_if_due()
            self._snapshots.look()
        if self._granted:
            granted = [*self._granted]
            self._granted.clear()
            self._start(granted)

    def _end(self) -> None:
        """Tasks that were given are told of, though nothing comes of them any more."""
        self._updates.close()
        for who, given in self._given.items():
            if not self._arrivals[who]:
                self._log.add(*unfinished(who, self._seq[who], given))
        self._log.close()
        self._work.close()

    # --------------------------------------------------------------------- fate

    def has_message(self, who: int) -> bool:
        """Whether a message waits for its verdict."""
        return self._pending[who]

    def stopped(self, who: int) -> None:
        """A client's task comes to nothing; a message waits for its return."""
        if self._pending[who]:
            return
        self._work.drop(who)
        given = self._given.pop(who, None)
        if given is None:
            return
        self._log.add(*unfinished(who, self._seq[who], given))
        received = given.at + self._population.download(who, given.down)
        if self._clock.now <= received:  # the model never came
            self._held[who] = given.held
            self._tasks[who] -= 1

    def feed(self, event: Event) -> None:
        """Tells the server of an event, after the updates that wait."""
        if self._updates:
            self._decide()
        self._do(self._coordinator.handle(event))

    # -------------------------------------------------------------------- tasks

    def ask(self, who: int) -> None:
        """A client waits for a task."""
        self._leases.arrive(self._names[who])
        self._grant()

    def _grant(self) -> None:
        """Starts the clients that wait and may train now."""
        leases, timers = self._rounds.grant(self._clock.now)
        if timers:
            self._world.carry_out_now([*timers])
        if leases:
            self._start(leases)

    def _expire(self) -> None:
        """A lease ends."""
        now, _, who, number = self._queue.expiries.popleft()
        self._clock.now = now
        if self._leases.expire(self._names[who], number):
            self._grant()

    def _start(self, leases: Sequence[Lease]) -> None:
        """They may train; the model is on its way to each of them."""
        now, queue, population = self._clock.now, self._queue, self._population
        end, public_D = now + self._lease, self._state.published.public_D
        size, may_evaluate = self._work.fixed_bytes or 0, self._evaluations.are_made
        for lease in leases:
            cid, version = lease.cid, lease.version
            who = self._places[cid]
            queue.put_expiry(end, who, lease.number)
            evaluates = may_evaluate and self._evaluations.asks(cid, version)
            held, seq = self._held[who], self._seq[who]
            nbytes, kind, codec = self._downloads.of(held)
            if nbytes:
                self._log.count(who, "down", codec, nbytes)
            if not self._there[who]:
                given = Given(now, version, kind, nbytes, 0, held)
                self._log.add(*unfinished(who, seq, given))
                continue
            self._held[who] = version
            self._tasks[who] = task = self._tasks[who] + 1
            received = now + population.download(who, nbytes)
            is_fine = self._data.samples[who] or self._read(who)
            if is_fine and evaluates:
                is_fine = self._evaluate(who, version, public_D, received)
            if not is_fine:
                self._given[who] = Given(now, version, kind, nbytes, 0, held)
                self._at(received, FAILS, who)
                continue
            steps = self._data.steps(who, self._share.get(who, 1.0))
            self._given[who] = Given(now, version, kind, nbytes, steps, held)
            duration = population.compute(who, task, steps)
            lost = population.dropout(who, task)
            if lost is not None:
                self._at(received + lost * duration, DROPS, who)
                continue
            due = received + duration
            self._work.give(who, Waiting(due, seq + 1, version, public_D, steps))
            if self._direct:
                queue.put(due + population.upload(who, size), ARRIVES, who)
            else:
                queue.put(due, FINISHES, who)

    def _read(self, who: int) -> bool:
        """Reads a client's data, once; says whether that went well."""
        try:
            self._data.read(who)
        except UserCodeError as error:
            self._errors[who] = error
            return False
        return True

    def _evaluate(
        self, who: int, version: int, public_D: Vector, received: Seconds
    ) -> bool:
        """It evaluates the model that it will have; says whether that went well."""
        try:
            self._evaluations.prepare(who, version, public_D)
        except UserCodeError as error:
            self._errors[who] = error
            return False
        self._at(received, REPORTS, who)
        return True

    def _report(self, who: int) -> None:
        """It tells its evaluation."""
        event = self._evaluations.take(who, self._clock.now)
        self.feed(event)
        self._world.tell(event)

    def _fail(self, who: int) -> None:
        """The user's code raised: the server is told, and the federation goes on."""
        error = self._errors.pop(who)
        self._log.add(*unfinished(who, self._seq[who], self._given.pop(who)))
        self._fates.fail(who, error)

    def _finish(self, who: int) -> None:
        """It has trained."""
        stack, row = self._work.result(who)
        if not stack.sound[row]:
            self._waste(who, stack, row)
            return
        self._made(who, 0)
        self.upload(who)

    def _made(self, who: int, attempts: int) -> None:
        """Its message is there, and was uploaded so many times."""
        self._failures.pop(who, None)
        self._seq[who] += 1
        self._pending[who], self._attempts[who] = True, attempts

    def _waste(self, who: int, stack: Stack, row: int) -> None:
        """The model or the loss raised, or the update cannot be sent."""
        self._work.drop(who)
        failure = stack.failure
        unusable = DivergedError(stack.unusable.get(row, ""))
        self._errors[who] = unusable if failure is None else failure.error()
        self._fail(who)

    def _tell(self) -> None:
        """Whoever watches is told that something was decided."""
        event = UpdatesDecided(at=self._clock.now, count=self._state.applied)
        self._world.tell(event)

    # ------------------------------------------------------------------ updates

    def upload(self, who: int) -> None:
        """A client sends its message, first or again."""
        stack, row = self._work.result(who)
        self._fates.send(who, stack.nbytes[row])

    def _arrive(self, who: int) -> None:
        """Its update is there."""
        stack, row = self._work.result(who)
        now = self._clock.now
        if self._direct and not self._pending[who]:
            if not stack.sound[row]:
                self._waste(who, stack, row)
                return
            self._made(who, 1)
        if self._take_in(who, now, stack, row):
            self._decide()
        elif self._arrivals[who] == 1:
            self._grant()
        if self._fates.loses_answer(who):
            self._at(now + RETRY, UPLOADS, who)
        else:
            self._queue.put_ack(now + self._latency[who], who)

    def _take_in(self, who: int, now: Seconds, stack: Stack, row: int) -> bool:
        """An update is there; says whether the server must decide on it now."""
        self._log.count(who, "up", stack.codec[row], stack.nbytes[row])
        self._arrivals[who] += 1
        if self._arrivals[who] > 1:
            return False
        given, samples = self._given[who], self._data.samples[who]
        self._updates.put(who, now, self._seq[who], given, samples, stack, row)
        return self._rounds.deliver(self._names[who], given.version)

    def _arrive_in_a_row(self) -> bool:
        """Updates arrive until the server decides on them; says whether time passed.

        Nobody gets a task meanwhile, so it makes no difference to others when a client
        hears that its update is there.
        """
        if not self._rounds.is_settled:
            return False
        end, events, lives = self._next_other(), self._queue.events, self._life
        now, passed, decides = self._clock.now, False, False
        while not decides and events and events[0] < end:
            event = when, _, kind, who, life = events[0]
            if lives[who] == life:
                if kind == READY:
                    self._hear_before(event)
                    self._hear_and_wait(who)
                elif kind != ARRIVES:
                    break
                else:
                    stack, row = self._work.result(who)
                    if not stack.sound[row]:
                        break
                    now = when
                    self._made(who, 1)
                    decides = self._take_in(who, now, stack, row)
                    self._queue.put_ack(now + self._latency[who], who)
            heappop(events)
            passed = True
        if passed:
            self._clock.now = now
            self._hear_before(event if decides else min([end, *events[:1]]))
        if decides:
            self._decide()
        return passed

    def _next_other(self) -> tuple[float, ...]:
        """When something happens next that is no client's doing."""
        expiries, others = self._queue.expiries, self._clock.queue
        while expiries and not self._leases.holds(
            self._names[expiries[0][2]], expiries[0][3]
        ):
            expiries.popleft()
        next_timer = others[0][:2] if others else NEVER
        return min(expiries[0], next_timer) if expiries else next_timer

    def _hear_before(self, event: tuple[float, ...]) -> None:
        """Acknowledgements come that are due before an event; nobody gets a task."""
        acks, lives = self._queue.acks, self._life
        while acks and acks[0] < event:
            _, _, _, who, life = acks.popleft()
            if lives[who] == life:
                self._hear_and_wait(who)

    def _hear_and_wait(self, who: int) -> None:
        """It knows the verdict, and nobody can get a task."""
        self._hear(who)
        self._leases.arrive(self._names[who])

    def _decide(self) -> None:
        """The server decides on what has arrived."""
        refused, actions = self._updates.decide()
        self._refused.update(refused)
        self._do([*actions, *self._coordinator.answer()])
        self._grant()
        self._tell()

    def _acknowledged(self, who: int) -> None:
        """It knows the verdict, and wants to go on."""
        self._hear(who)
        self.ask(who)

    def _hear(self, who: int) -> None:
        """It knows the verdict."""
        verdict = Verdict.ACCEPTED
        if self._refused or self._share:
            verdict = self._refused.pop(who, verdict)
            work, once = self._share.pop(who, 1.0), self._arrivals[who] == 1
            left = work_after(verdict, work, sent_once=once)
            if left < 1.0:
                self._share[who] = left
        del self._given[who]
        self._work.settle(who, verdict)
        self._pending[who], self._arrivals[who] = False, 0

    # ------------------------------------------------------------------ resuming

    def dump(self, arrays: Arrays) -> JSON:
        """All that the rest of the run depends on; vectors go to ``arrays``."""
        self._log.flush()
        return {
            "queue": self._queue.dump(),
            "clients": {name: getattr(self, name) for name in _BY_CLIENT},
            "share": list(self._share.items()),
            "given": list(self._given.items()),
            "refused": [[who, v.value] for who, v in self._refused.items()],
            "failures": list(self._failures.items()),
            "errors": [[who, str(error)] for who, error in self._errors.items()],
            "reports": self._evaluations.dump(),
            "entering": self._updates.dump(arrays),
            "rounds": self._rounds.dump(),
            "evaluations": self._coordinator.evaluations.dump(),
            "work": self._work.dump(arrays),
            "moved": self._log.dump(),
        }

    def load(self, known: Saved) -> None:
        """What :meth:`dump` gave; the state of the server was loaded before."""
        saved, arrays = known
        self._queue.load(saved["queue"])
        for name in _BY_CLIENT:
            getattr(self, name)[:] = saved["clients"][name]
        self._share = dict(saved["share"])
        self._given = {who: Given(*given) for who, given in saved["given"]}
        self._refused = {who: Verdict(value) for who, value in saved["refused"]}
        self._failures = dict(saved["failures"])
        self._errors = {who: UserCodeError(text) for who, text in saved["errors"]}
        self._evaluations.load(saved.get("reports", ()))
        self._work.load(saved["work"], arrays)
        holding = {*self._given, *(update[0] for update in saved["entering"])}
        for who in holding.difference(self._errors):
            self._data.read(who)
        self._updates.load(saved["entering"], arrays)
        self._log.load(saved["moved"])
        self._coordinator.evaluations.load(saved["evaluations"])
        self._do(self._rounds.load(saved["rounds"]))
