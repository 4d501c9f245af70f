"""Simulated clients by the thousand, trained in stacks.

A client is a row of a few lists: it waits, gets a model, trains, uploads, and hears the
verdict, or it is lost on the way (:class:`fedsim.engines.fates.Fates`) and comes again.
Times come from the population, decisions from the rounds, and updates from the work.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from fedcore.controllers import Assignment, join
from fedcore.coordinator.actions import Action, Lease
from fedcore.coordinator.events import Event
from fedcore.coordinator.rounds import NO_GRANTS, Asked
from fedcore.errors import DivergedError, UserCodeError, WorkloadError
from fedcore.pool import Pool
from fedcore.protocol import Ack, Reply
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds, State
from fedcore.workload import Client, Workload
from fedsim.engines.fates import (
    ARRIVES,
    ASKS,
    DROPS,
    FAILS,
    FINISHES,
    RECEIVES,
    REPORTS,
    RETRY,
    UPLOADS,
    Fates,
    order_of_coming,
)
from fedsim.engines.stacked.client_data import ClientData
from fedsim.engines.stacked.collector import few_collections
from fedsim.engines.stacked.controls import Controls
from fedsim.engines.stacked.downloads import Downloads
from fedsim.engines.stacked.event_loop import EventLoop
from fedsim.engines.stacked.event_queue import EventQueue
from fedsim.engines.stacked.messages import Messages
from fedsim.engines.stacked.own_evaluations import OwnEvaluations
from fedsim.engines.stacked.pending_updates import Given
from fedsim.engines.stacked.run_log import RunLog
from fedsim.engines.stacked.stack import Stack
from fedsim.engines.stacked.work import Waiting, Work
from fedsim.evaluator import EvaluateModel
from fedsim.population import Population
from fedsim.snapshots import STACKED, Saved, Snapshots
from fedsim.world import World
from fedview.callbacks import UpdatesDecided

_CID = attrgetter("cid")


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
        """Uses ``evaluate`` for the evaluations by clients, if they make any."""
        run, coordinator = world.run, world.run.coordinator
        algorithm, simulate = run.config.algorithm, run.config.simulate
        self._world, self._clock = world, world.clock
        self._coordinator, self._state = coordinator, coordinator.state
        self._rounds, self._leases = coordinator.rounds, coordinator.rounds.leases
        self._population, self._work = population, work
        self._lease_seconds = coordinator.timeouts.lease
        count = population.count
        self._names = names = population.names
        self._places = {name: place for place, name in enumerate(names)}
        self._latency = [population.latency(who) for who in range(count)]
        controller = coordinator.algorithm.controller
        self._is_measured = coordinator.algorithm.observes_tasks
        self._rest = algorithm.update_filter.rest  # of refused tasks; None: none is
        self._bytes = work.fixed_bytes or 0
        # Whether the arrival time of an update is known when its task is given.
        self._direct = (
            work.fixed_bytes is not None
            and controller is None
            and not simulate.upload_loss
            and not population.comes_and_goes
        )
        self._queue = queue = EventQueue(self._clock, count)
        fates = Fates(world, population, names, queue.life, queue.put, self)
        self._fates = fates
        client = population.client
        settings = coordinator.algorithm.clients
        self._data = ClientData(
            workload,
            pool,
            client,
            settings,
            names,
            algorithm.update_filter,
            share_labels=run.config.share_labels,
        )
        self._log = RunLog(world, names, population.place)
        self._messages = Messages(
            names, self._data.samples, self._rounds, work, self._log
        )
        self._downloads = Downloads(self._state)
        self._held = [0] * count  # versions
        self._granted: list[Lease] = []  # not started yet
        self._errors: dict[int, WorkloadError] = {}  # not reported yet
        self._evaluations = OwnEvaluations(
            evaluate, coordinator.evaluations, client, lambda who: self._held[who]
        )
        dim, metrics = coordinator.algorithm.spec.dim, self._evaluations.metrics
        self._controls = controller and Controls(controller, self._clock, dim, metrics)
        self._is_usual = self._controls is None and not self._is_measured
        self._snapshots = Snapshots(run, STACKED, self.dump)
        handlers = (  # in the order of the kinds in fedsim.engines.fates
            *(self._arrive, self._hear, self._finish, self.upload),
            *(fates.begin, fates.leave, fates.drop_out, fates.miss),
            *(self._fail, self._report, self.ask, self._receive),
        )
        self._loop = EventLoop(
            world,
            queue,
            names,
            handlers,
            self,
            self._messages,
            self._snapshots,
            in_rows=self._direct
            and algorithm.synchronous
            and not (simulate.ack_loss or algorithm.client.overlaps),
        )
        if population.needs_labels:
            population.show_labels(self._data.label_counts)
        world.closing.append(self._end)
        world.follow, world.start = self._follow, self._granted.append
        world.actors.update(dict.fromkeys(names, self))
        self._rounds.asked = self._look_up

    def clients(self) -> Iterator[tuple[Client, State]]:
        """Yields all clients, each with the state kept from its last message."""
        for who in range(self._population.count):
            kept = self._work.kept(who, has_message=self.has_message(who))
            yield self._population.client(who), kept

    def begin(self) -> None:
        """Enrols all clients and starts those that are available."""
        self._log.enrol()
        for who in order_of_coming(self._rounds.algorithm.config, self._population):
            self._fates.begin(who)

    # --------------------------------------------------------------------- time

    def execute(self, is_over: Callable[[], bool]) -> None:
        """Handles events until the run is over or no event is left."""
        with self._world.interrupts.held(), few_collections():
            self._loop.run(is_over)

    def _do(self, actions: list[Action]) -> None:
        """Carries out the actions that follow from an event."""
        if actions:
            self._world.carry_out_now(actions)
        self._follow()

    def _follow(self) -> None:
        """Carries out the actions of a new version and of granted tasks."""
        if self._state.version != self._downloads.version:
            self._downloads.step_made()
            self._log.flush_if_due()
            self._snapshots.look()
        if self._granted:
            granted = [*self._granted]
            self._granted.clear()
            self._start(granted)

    def _end(self) -> None:
        """Writes the remaining records, and ends the workers."""
        self._messages.close()
        self._log.close()
        self._work.close()

    # ------------------------------------------------------------------ for fates

    def has_message(self, who: int) -> bool:
        """Returns whether a message waits for its verdict."""
        return self._messages.is_pending[who]

    def stopped(self, who: int) -> None:
        """Drops a client's task; a message waits for the client's return."""
        if self.has_message(who):
            return
        given = self._messages.abandon(who)
        if given is None:
            return
        received = given.at + self._population.download(who, given.down)
        if self._clock.now < received:  # the model never arrived
            self._held[who] = given.held
            self._fates.tasks[who] -= 1

    def feed(self, event: Event) -> None:
        """Passes an event to the server, after the waiting updates."""
        if self._messages.wait:
            self.decide()
        self._do(self._coordinator.handle(event))

    # -------------------------------------------------------------------- tasks

    def ask(self, who: int) -> None:
        """Lets a client wait for a task."""
        if self._controls is not None and (wait := self._controls.rest(who)):
            self._queue.put(self._clock.now + wait, ASKS, who)
            return
        self._leases.arrive(self._names[who])
        self.grant()

    def grant(self) -> None:
        """Starts the clients that wait and may train now."""
        grants = self._rounds.grant(self._clock.now)
        if grants is NO_GRANTS:
            return
        leases, declined, actions = grants
        if actions:
            self._world.carry_out_now([*actions])
        for record in declined:
            self.receive_refusal(record.cid, self._rest or 0.0)
        if leases:
            self._start(leases)

    def proceed(self) -> None:
        """Makes the version that is due, and starts clients that may train now."""
        self._state.touch(self._clock.now)
        self._do(self._coordinator.proceed())

    def _start(self, leases: Sequence[Lease]) -> None:
        """Starts clients that may train; the model is on its way to each of them."""
        now, queue, population = self._clock.now, self._queue, self._population
        end, state = now + self._lease_seconds, self._state
        messages, data, fates = self._messages, self._data, self._fates
        tasks, shares, started = messages.tasks, messages.shares, fates.tasks
        overlaps, versions, sent = fates.overlaps, self._held, self._log.down
        is_usual, may_evaluate = self._is_usual, self._evaluations.are_made
        self._coordinator.evaluations.begin(map(_CID, leases))
        for lease in leases:
            cid, version = lease.cid, lease.version
            who = self._places[cid]
            queue.put_expiry(end, who, lease.number)
            evaluates = may_evaluate and self._evaluations.asks(cid, version)
            held = versions[who]
            nbytes, kind, codec = self._downloads.of(held)
            if nbytes:
                sent[codec].append((who, nbytes))
            if not fates.is_there[who]:
                given = Given(now, version, kind, nbytes, 0, held)
                messages.note_unfinished(who, given)
                continue
            versions[who] = version
            started[who] = task = started[who] + 1
            received = now + population.download(who, nbytes)
            work, density, wanted = shares.get(who, 1.0) if shares else 1.0, 1.0, None
            if not is_usual or evaluates or not data.samples[who]:
                assigned = self._prepare(
                    who, lease, received, nbytes, evaluates=evaluates
                )
                if assigned is None:
                    tasks[who] = Given(now, version, kind, nbytes, 0, held)
                    queue.put(received, FAILS, who)
                    continue
                share, density, wanted = assigned
                work *= share
            steps, effort = data.steps(who, version, work, wanted)
            duration, measured = population.compute(who, task, effort), None
            if self._is_measured:
                used = data.used(who, steps, wanted)
                measured = population.measured(who, task, used, duration)
            tasks[who] = Given(now, version, kind, nbytes, steps, held, measured)
            lost = population.dropout(who, task)
            trains = duration if lost is None else lost * duration
            due = received + trains
            if overlaps:
                due = fates.end(who, received, trains)
            if lost is not None:
                queue.put(due, DROPS, who)
                continue
            if overlaps:
                fates.train_on(who, due)
            seq = messages.seq[who] + 1
            group = state.group_of(cid)
            base_D = state.model_of(group)
            waiting = Waiting(due, seq, version, base_D, steps, density, wanted, group)
            self._work.give(who, waiting)
            if self._direct:
                queue.put(due + population.upload(who, self._bytes), ARRIVES, who)
            else:
                queue.put(due, FINISHES, who)

    def _prepare(
        self, who: int, lease: Lease, received: Seconds, nbytes: int, *, evaluates: bool
    ) -> Assignment | None:
        """Assigns a task that differs from the others, or begins with user code.

        Args:
            who: the client.
            lease: the lease of the task; its ``given`` comes from the server's
                controllers.
            received: the time at which the model arrives.
            nbytes: the bytes of the patch.
            evaluates: whether the client evaluates the model.

        Returns:
            The assignment by all controllers; None if the user's code failed.
        """
        given, controls, is_fine = lease.given, self._controls, True
        public_D = self._state.model_of(self._state.group_of(lease.cid))
        kept = self._work.kept(who)
        if controls is not None:
            is_fine = self._goes_well(who, controls.compare, public_D, kept)
            self._queue.put(received, RECEIVES, who)
            given = join(given, controls.assign(who, received, nbytes))
        if is_fine and not self._data.samples[who]:
            is_fine = self._goes_well(who, self._data.read)
        if is_fine and evaluates:
            prepare = self._evaluations.prepare
            is_fine = self._goes_well(who, prepare, lease.version, public_D, kept)
            if is_fine:
                self._queue.put(received, REPORTS, who)
        return given if is_fine else None

    def _look_up(self, cid: str) -> Asked:
        """Returns the facts that a waiting client reports about itself."""
        who, device, plan = self._places[cid], None, None
        if self._is_measured:
            device = self._population.device(who, self._fates.tasks[who] + 1)
        if self._rest is not None:
            plan = self._data.plan(who)
        return Asked(device, plan)

    def receive_refusal(self, cid: str, rest: Seconds) -> None:
        """Takes the refusal of a task before it is computed; the client rests."""
        who = self._places[cid]
        if self._fates.is_there[who]:
            when = self._clock.now + self._population.download(who, 0) + rest
            self._queue.put(when, ASKS, who)

    def receive_reply(self, cid: str, reply: Reply) -> None:
        """Does nothing: simulated in stacks, no client pulls."""
        raise AssertionError(f"{cid} has pulled")

    def receive_ack(self, cid: str, ack: Ack) -> None:
        """Does nothing: simulated in stacks, no client pushes."""
        raise AssertionError(f"{cid} has pushed")

    def _receive(self, who: int) -> None:
        """Tells the controllers that a model has reached a client."""
        if self._controls is not None:
            self._controls.receive(who, self._messages.tasks[who].down)

    def _goes_well(self, who: int, read: Callable[..., None], *given: Any) -> bool:
        """Runs a step that may call user code; stores its error and returns False."""
        try:
            read(who, *given)
        except WorkloadError as error:
            self._errors[who] = error
            return False
        return True

    def _report(self, who: int) -> None:
        """Sends the client's evaluation."""
        event = self._evaluations.take(who, self._clock.now)
        self.feed(event)
        self._world.tell(event)

    def _fail(self, who: int, *, in_training: bool = False) -> None:
        """Reports to the server that the user's code failed; the federation goes on."""
        self._messages.abandon(who)
        self._fates.fail(who, self._errors.pop(who), in_training=in_training)

    def _finish(self, who: int) -> None:
        """Makes and sends the message of a client that has trained."""
        stack, row = self._work.result(who)
        controls = self._controls
        if controls and not self._goes_well(who, controls.finish, stack, row):
            self._fail(who)
        elif self._make_message(who, stack, row, attempts=0):
            self.upload(who)
        else:
            self._waste(who, stack, row)

    def _make_message(self, who: int, stack: Stack, row: int, attempts: int) -> bool:
        """Makes a client's message, unless its update cannot be used."""
        if not stack.sound[row]:
            return False
        fates = self._fates
        if fates.notes_training:
            fates.train(who)
        fates.attempts[who] = attempts
        self._messages.make(who)
        return True

    def _waste(self, who: int, stack: Stack, row: int) -> None:
        """Drops a task: the model or the loss raised, or the update cannot be sent."""
        failure = stack.failure
        unusable = DivergedError(stack.unusable.get(row, ""))
        error = unusable if failure is None else failure.error()
        assert isinstance(error, WorkloadError)
        self._errors[who] = error
        self._fail(who, in_training=failure is not None)

    # ------------------------------------------------------------------ messages

    def upload(self, who: int) -> None:
        """Lets a client send its message, for the first time or again."""
        stack, row = self._work.result(who)
        nbytes, controls = stack.nbytes[row], self._controls
        if controls is None:
            self._fates.send(who, nbytes)
        elif wait := controls.rest(who, nbytes):
            self._queue.put(self._clock.now + wait, UPLOADS, who)
        else:
            controls.send(who, nbytes, *self._fates.send(who, nbytes))

    def deliver(self, who: int, at: Seconds) -> bool | None:
        """Takes a client's message that arrives for the first time.

        Returns:
            Whether the server must decide now; None if the update cannot be used.
        """
        stack, row = self._work.result(who)
        if not self._make_message(who, stack, row, attempts=1):
            return None
        decides = self._messages.take_in(who, at, stack, row)
        self._queue.put_ack(at + self._latency[who], who)
        return decides

    def _arrive(self, who: int) -> None:
        """Takes a client's message that arrives, for the first time or again."""
        now, messages = self._clock.now, self._messages
        stack, row = self._work.result(who)
        is_new = self._direct and not messages.is_pending[who]
        if is_new and not self._make_message(who, stack, row, attempts=1):
            self._waste(who, stack, row)
            return
        if messages.take_in(who, now, stack, row):
            self.decide()
        elif messages.arrivals[who] == 1 and self._leases.may_lease:
            self.grant()
        if self._fates.loses_answer(who):
            self._queue.put(now + RETRY, UPLOADS, who)
        else:
            self._queue.put_ack(now + self._latency[who], who)

    def decide(self) -> None:
        """Lets the server decide on the updates that have arrived."""
        self._do([*self._messages.decide(), *self._coordinator.pulls.answer()])
        self.grant()
        self._world.tell(UpdatesDecided(at=self._clock.now, count=self._state.applied))

    def _hear(self, who: int) -> None:
        """Tells a client the verdict; the client then waits for a task."""
        verdict = self._messages.hear(who)
        if self._fates.overlaps and self._work.takes_back(verdict):
            self._fates.train_on(who, self._clock.now)
        self.ask(who)

    def hear_and_wait(self, who: int) -> None:
        """Tells a client the verdict at a time when no client can get a task."""
        self._messages.hear(who)
        self._leases.arrive(self._names[who])

    # ------------------------------------------------------------------ resuming

    def dump(self, arrays: Arrays) -> JSON:
        """Returns what the rest of the run depends on; vectors go to ``arrays``."""
        self._log.flush()
        return {
            "queue": self._queue.dump(self._is_newest),
            "fates": self._fates.dump(),
            "held": self._held,
            "messages": self._messages.dump(arrays),
            "errors": [[who, str(error)] for who, error in self._errors.items()],
            "reports": self._evaluations.dump(),
            "rounds": self._rounds.dump(),
            "evaluations": self._coordinator.evaluations.dump(),
            "work": self._work.dump(arrays),
            "controls": self._controls and self._controls.dump(arrays),
            "moved": self._log.dump(),
        }

    def _is_newest(self, who: int, number: int) -> bool:
        return self._leases.is_newest(self._names[who], number)

    def load(self, known: Saved) -> None:
        """Restores the state that :meth:`dump` returned, after the server's state."""
        saved, arrays = known
        # A deadline comes before leases that end at the same time, because it was set
        # first.
        self._do(self._rounds.load(saved["rounds"]))
        self._queue.load(saved["queue"])
        self._fates.load(saved["fates"])
        self._held[:] = saved["held"]
        self._errors = {who: UserCodeError(text) for who, text in saved["errors"]}
        self._evaluations.load(saved["reports"])
        self._work.load(saved["work"], arrays)
        if self._controls is not None:
            self._controls.load(saved["controls"], arrays)
        self._messages.load(saved["messages"], arrays)
        for who in self._messages.who_trained.difference(self._errors):
            self._data.read(who)
        self._log.load(saved["moved"])
        self._coordinator.evaluations.load(saved["evaluations"])
