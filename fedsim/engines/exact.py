"""Simulated clients one by one, each with its whole side of the protocol.

A task is computed when the result falls due, with the arithmetic of a deployment: the
same order of arrival gives the same model, bit for bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappush
from typing import Any, NamedTuple

from fedcore.clients import ClientAlgorithmConfig, in_common_steps
from fedcore.controllers import Report
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Evaluated,
    Event,
    Skipped,
    Timer,
    UpdatePushed,
)
from fedcore.errors import DivergedError, WorkloadError
from fedcore.model import Metrics
from fedcore.participant import Outcome, Participant, ParticipantState, assign
from fedcore.protocol import Ack, Plan, Reply
from fedcore.training import Trainer
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds, State, Vector
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedsim import saved_values
from fedsim.engines.fates import (
    ASKS,
    DROPS,
    FINISHES,
    READY,
    RECEIVES,
    RETRY,
    UPLOADS,
    Fates,
)
from fedsim.evaluator import NAME as EVALUATOR
from fedsim.evaluator import EvaluateModel
from fedsim.population import Population
from fedsim.population.client_data import ClientData
from fedsim.snapshots import Saved
from fedsim.world import Alarm, World

# The fields of ExactClients on messages and current tasks; a snapshot holds them.
_ON_THE_WAY = ("_replies", "_acks", "_loses_answer", "_durations")


class _Task(NamedTuple):
    """The size of a task."""

    config: ClientAlgorithmConfig
    samples: int
    """The number of samples that the client has."""
    steps: int
    wanted: int | None
    """The number of samples that the whole task uses; None for the usual number."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event that will happen to a client."""

    clients: "ExactClients"
    what: int
    who: int
    life: int

    def __call__(self) -> None:
        """Executes the event."""
        self.clients.happen(self.what, self.who, self.life)


class ExactClients:
    """All clients of a world, a participant behind each of them."""

    def __init__(
        self,
        world: World,
        population: Population,
        clients: Sequence[Client],
        workload: Workload,
        trainer: Trainer,
        evaluate: EvaluateModel | None = None,
    ) -> None:
        """Creates the clients without enrolling them; none is available yet.

        Args:
            world: the world in which they live.
            population: their devices.
            clients: the clients as the user's code sees them, in the devices' order.
            workload: the workload that they use.
            trainer: computes their tasks.
            evaluate: evaluates models for them; None if they evaluate none.
        """
        self._world, self._population, self.clients = world, population, clients
        self._data, self._trainer = ClientData(workload, clients), trainer
        self._evaluate_model = evaluate
        self._names = [client.name for client in clients]
        self._places = {name: who for who, name in enumerate(self._names)}
        self._life = [0] * len(clients)
        names, life = self._names, self._life
        self.fates = Fates(world, population, names, life, self._at, self)
        self._replies: dict[int, Reply] = {}  # models on their way
        self._acks: dict[int, Ack] = {}  # likewise
        self._loses_answer = [False] * len(clients)
        algorithm = world.run.coordinator.algorithm
        self._is_measured = algorithm.observes_tasks
        self._common = algorithm.config.client
        self._is_judged = algorithm.config.update_filter.rest is not None  # before
        self._plans: dict[int, Plan | None] = {}
        self._durations: dict[int, Seconds] = {}  # of the tasks that are computed
        self._is_recorded = False  # a record sets the arrivals
        fates = self.fates
        self._handlers: tuple[Callable[[int], None], ...] = (
            self._push,
            self._settle,
            self._finish,
            self.upload,
            fates.begin,
            fates.leave,
            fates.drop_out,
            fates.miss,
            self._raise_unexpected,
            self._raise_unexpected,
            self.ask,
            self._receive,
        )
        self.participants = list(map(self._participant, clients))
        if population.needs_labels:
            population.show_labels(self._data.label_counts)

    def with_kept(self) -> list[tuple[Client, State]]:
        """Returns all clients, each with its kept state."""
        states = (participant.state for participant in self.participants)
        kept = (state.kept for state in states)
        return list(zip(self.clients, kept, strict=True))

    def _participant(self, client: Client) -> Participant:
        run = self._world.run
        state = ParticipantState(client.name, run.run_id, run.coordinator.state.epoch)
        self._world.actors[client.name] = self
        algorithm = run.coordinator.algorithm.of_client(client.name)
        return Participant(algorithm, state)

    def enrol(self) -> None:
        """Enrols all clients, at the beginning of the run."""
        world = self._world
        for client, participant in zip(self.clients, self.participants, strict=True):
            event = ClientEnrolled(
                at=world.clock.now,
                cid=client.name,
                name=client.name,
                index=client.index,
                count=client.count,
            )
            world.feed(event)
            origin = world.run.coordinator.state.published.origin
            participant.derive(world.version_0, origin)

    def _at(self, when: Seconds, what: int, who: int) -> None:
        self._world.clock.at(when, Happening(self, what, who, self._life[who]))

    def happen(self, what: int, who: int, life: int) -> None:
        """Executes an event of a client, unless that life of the client has ended."""
        if self._life[who] == life:
            self._handlers[what](who)

    def _later(self, delay: Seconds, what: int, who: int) -> None:
        self._at(self._world.clock.now + delay, what, who)

    def _raise_unexpected(self, who: int) -> None:
        raise AssertionError(f"{self._names[who]}: an event of another engine")

    def feed(self, event: Event) -> None:
        """Passes an event to the server."""
        self._world.feed(event)

    def has_message(self, who: int) -> bool:
        """Returns whether a message waits for its verdict."""
        return self.participants[who].state.pending is not None

    def stopped(self, who: int) -> None:
        """Does nothing: a task is computed at its end, so there is nothing to undo."""

    # -------------------------------------------------------------------- tasks

    def ask(self, who: int) -> None:
        """Lets a client ask for the model and for work."""
        world, participant = self._world, self.participants[who]
        if wait := participant.rest(world.clock.now):
            self._later(wait, ASKS, who)
            return
        device = None
        if self._is_measured:
            device = self._population.device(who, self.fates.tasks[who] + 1)
        pull = participant.pull(world.nonce(), device, self._plan(who))
        world.feed(
            ClientPulled(at=world.clock.now, pull=pull, fresh_epoch=world.fresh_epoch())
        )

    def _plan(self, who: int) -> Plan | None:
        """Returns the plan by which the update filter decides whether to train."""
        if not self._is_judged:
            return None
        if who not in self._plans:
            try:
                data = self._data.of(who)
                with user_code(f"train_data of {self._names[who]}"):
                    self._plans[who] = self._trainer.plan(data)
            except WorkloadError:
                return None  # the task will raise it again, and reports it then
        return self._plans[who]

    def receive_refusal(self, cid: str, rest: Seconds) -> None:
        """Takes the refusal of a task before it is computed; the client rests."""
        who = self._places[cid]
        if self.fates.is_there[who]:
            self._later(self._population.download(who, 0) + rest, ASKS, who)

    def receive_reply(self, cid: str, reply: Reply) -> None:
        """Sends the model on its way to a client."""
        who = self._places[cid]
        if self.fates.is_there[who]:
            self._replies[who] = reply
            delay = self._population.download(who, reply.patch.nbytes)
            self._later(delay, RECEIVES, who)

    def _receive(self, who: int) -> None:
        reply, participant = self._replies.pop(who), self.participants[who]
        now = self._world.clock.now
        participant.observe(Report(at=now, nbytes=reply.patch.nbytes))
        if not participant.receive(reply) or reply.done:
            return
        if reply.task is None:
            self._later(reply.retry_after, ASKS, who)
            return
        try:
            if reply.task.evaluate:
                self._evaluate(who)
            self._compare(who)
            self.fates.tasks[who] += 1
            task = self.fates.tasks[who]
            duration = self._population.compute(who, task, self._effort(who))
            lost = self._population.dropout(who, task)
        except WorkloadError as error:
            self.fates.fail(who, error)
            return
        if lost is not None:
            self._at(self.fates.end(who, now, lost * duration), DROPS, who)
        else:
            self._durations[who] = duration
            self._at(self.fates.end(who, now, duration), FINISHES, who)

    def _finish(self, who: int) -> None:
        try:
            trained = self._train(who)
        except WorkloadError as error:
            in_training = not isinstance(error, DivergedError)
            self.fates.fail(who, error, in_training=in_training)
            return
        if self.fates.overlaps:
            self.fates.train_on(who, self._world.clock.now)
        self.fates.train(who)
        if trained:
            self.fates.attempts[who] = 0
            self.upload(who)
        else:
            self.ask(who)

    def _train(self, who: int) -> bool:
        """Computes a client's task; returns whether there is an update to send.

        Raises:
            WorkloadError: the user's code failed, or the update cannot be sent.
        """
        world, participant, name = self._world, self.participants[who], self._names[who]
        data, seed = self._data.of(who), world.run.config.seed
        trained, base, key = self._trainer.task(
            participant.state, data, seed, self.clients[who]
        )
        if trained.skipped:
            event = Skipped(
                at=world.clock.now, cid=name, count=trained.skipped, why=trained.why
            )
            world.feed(event)
        took = self._durations.pop(who, None)
        if self._is_measured and took is not None:
            task, used = self.fates.tasks[who], trained.used
            measured = self._population.measured(who, task, used, took)
            trained = trained._replace(measured=measured)
        own = None
        if "own" in participant.wants:
            own = self._metrics(who, participant.own_model(trained), trained.kept)
        sends = participant.finish(trained, base, key)
        participant.note_task(world.clock.now, own)
        if participant.unusable:
            raise DivergedError(participant.unusable)
        return sends

    def compare(self, name: str) -> None:
        """Lets a client evaluate the model that it has, if its controllers ask."""
        self._compare(self._places[name])

    def _compare(self, who: int) -> None:
        participant = self.participants[who]
        if "public" in participant.wants:
            state = participant.state
            public = self._metrics(who, state.public_D, state.kept)
            participant.observe(Report(at=self._world.clock.now, public=public))

    def _metrics(self, who: int, model_D: Vector | None, kept: State) -> Metrics:
        """Returns the metrics of a model on a client's own data."""
        held = self.participants[who].state.held
        assert held is not None
        assert model_D is not None
        assert self._evaluate_model is not None
        client = self.clients[who]
        return self._evaluate_model(client, model_D, held.version, kept)[0]

    def _evaluate(self, who: int) -> None:
        state = self.participants[who].state
        assert state.held is not None
        assert state.public_D is not None
        assert self._evaluate_model is not None
        values, samples = self._evaluate_model(
            self.clients[who], state.public_D, state.held.version, state.kept
        )
        self._world.feed(
            Evaluated(
                at=self._world.clock.now,
                cid=self._names[who],
                version=state.held.version,
                values=values,
                samples=samples,
            )
        )

    def _effort(self, who: int) -> float:
        """Returns how many usual steps take as long as a client's next task."""
        task = self._task(who)
        return in_common_steps(
            self._common, task.config, task.samples, task.steps, task.wanted
        )

    def _task(self, who: int) -> "_Task":
        """Returns the size of a client's next task."""
        participant = self.participants[who]
        algorithm, held = participant.algorithm, participant.state.held
        assert held is not None
        config = algorithm.config.client.at(held.version)
        given, samples = assign(algorithm, participant.state), self._data.count(who)
        steps = config.steps_of(samples, given.work, given.samples)
        return _Task(config, samples, steps, given.samples)

    # ------------------------------------------------------------------ updates

    def upload(self, who: int) -> None:
        """Lets a client send its message, for the first time or again."""
        participant, now = self.participants[who], self._world.clock.now
        pending = participant.state.pending
        assert pending is not None
        if wait := participant.rest(now):
            self._later(wait, UPLOADS, who)
            return
        nbytes = len(pending.push.payload)
        duration, part = self.fates.send(who, nbytes)
        took = duration if part is None else None
        passed = nbytes if part is None else int(part * nbytes)
        participant.observe(Report(at=now, nbytes=passed, upload_seconds=took))

    def deliver(self, name: str, steps: int) -> None:
        """Trains a client and lets its update arrive at once, as a record says.

        Args:
            name: the client's name.
            steps: the number of steps of the recorded update. It shows whether the
                client
                had halved its work after a late message, but not whether it had sent
                that
                message twice.
        """
        who = self._places[name]
        self._is_recorded = True
        self._take_work(who, steps)
        if self._train(who):
            self._push(who)

    def _take_work(self, who: int, steps: int) -> None:
        """Sets a client's share of the work to the share that takes these steps.

        It stays as it is if there is no such share, because the record is of another
        config.
        """
        participant = self.participants[who]
        state = participant.state
        while participant.state.work < 1 and self._task(who).steps != steps:
            work = 2 * participant.state.work
            participant.state = replace(participant.state, work=work)
        if participant.state is not state and self._task(who).steps != steps:
            participant.state = state

    def _push(self, who: int) -> None:
        """Lets a client's update arrive."""
        self._loses_answer[who] = self.fates.loses_answer(who)
        push = self.participants[who].push()
        self._world.feed(UpdatePushed(at=self._world.clock.now, push=push))

    def receive_ack(self, cid: str, ack: Ack) -> None:
        """Sends the answer on its way to a client, or loses it."""
        who = self._places[cid]
        if self._is_recorded:
            self.participants[who].settle(ack)
        elif self._loses_answer[who]:
            self._later(RETRY, UPLOADS, who)
        else:
            self._acks[who] = ack
            self._later(self._population.latency(who), READY, who)

    def _settle(self, who: int) -> None:
        participant = self.participants[who]
        kept = participant.state.kept
        outcome = participant.settle(self._acks.pop(who))
        if self.fates.overlaps and participant.state.kept is not kept:
            # Its next steps are taken again.
            self.fates.train_on(who, self._world.clock.now)
        if outcome is Outcome.RETRY:
            self._later(RETRY, UPLOADS, who)
        elif outcome is not Outcome.IGNORED:
            self.ask(who)

    # ----------------------------------------------------------------- resuming

    @property
    def can_be_saved(self) -> bool:
        """Whether :meth:`dump` knows everything that is due at this very moment."""
        clock = self._world.clock
        now = [what for when, _, what in clock.queue if when <= clock.now]
        return all(isinstance(what, Happening | Alarm) for what in now)

    def dump(self, arrays: Arrays) -> JSON:
        """Returns what the rest of the run depends on; vectors go to ``arrays``.

        The evaluator's tasks are left out, because it begins anew.
        """
        world, coordinator = self._world, self._world.run.coordinator
        events: list[Any] = []
        for when, ticket, what in world.clock.queue:
            if isinstance(what, Happening):
                events.append((when, ticket, (what.what, what.who, what.life)))
            elif isinstance(what, Alarm) and not (
                coordinator.is_past(what.timer) or _is_anew(what.timer)
            ):
                events.append((when, ticket, what.timer))
        participants = [
            {name: value for name, value in vars(each).items() if name != "algorithm"}
            for each in self.participants
        ]
        pulls = [coordinator.pulls.waiting(name) for name in self._names]
        saved = {
            "now": world.clock.now,
            "ticket": world.clock.ticket(),
            "events": events,
            "participants": participants,
            "pulls": [pull for pull in pulls if pull is not None],
            "rounds": coordinator.rounds.dump(),
            "evaluations": coordinator.evaluations.dump(),
            "world": world.dump(self._names),
            "fates": self.fates.dump(),
            "life": self._life,
            **{name: getattr(self, name) for name in _ON_THE_WAY},
        }
        return saved_values.save(saved, arrays)

    def load(self, known: Saved) -> None:
        """Restores the state that :meth:`dump` returned, after the server's state."""
        saved = saved_values.load(*known)
        world, coordinator = self._world, self._world.run.coordinator
        clock = world.clock
        clock.go_on(saved["now"], saved["ticket"])
        clock.queue[:] = [
            (when, ticket, what)
            for when, ticket, what in clock.queue
            if not isinstance(what, Alarm) or _is_anew(what.timer)
        ]
        for when, ticket, what in saved["events"]:
            is_timer = isinstance(what, Timer)
            happens = Alarm(world, what) if is_timer else Happening(self, *what)
            heappush(clock.queue, (when, ticket, happens))
        for participant, values in zip(
            self.participants, saved["participants"], strict=True
        ):
            vars(participant).update(values)
        coordinator.rounds.load(saved["rounds"])  # its timers are among the events
        coordinator.evaluations.load(saved["evaluations"])
        coordinator.pulls.load(saved["pulls"])
        world.load(saved["world"], self._names)
        self.fates.load(saved["fates"])
        self._life[:] = saved["life"]
        for name in _ON_THE_WAY:
            vars(self)[name] = saved[name]


def _is_anew(timer: Timer) -> bool:
    """Returns whether a resumed run sets a timer anew: its end, and the evaluator's."""
    return timer.kind == "stop" or timer.subject == EVALUATOR
