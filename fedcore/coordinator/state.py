"""The durable state of a server, and how each record changes it.

``restore`` applies a record of the journal with elementwise arithmetic alone. A live
coordinator applies its decisions by the same methods.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, assert_never

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.aggregators import Contribution, Groups, Work
from fedcore.algorithm import Algorithm, AlgorithmConfig
from fedcore.clients import ClientAlgorithmConfig
from fedcore.controllers import Assignment, TaskReport
from fedcore.coordinator import events
from fedcore.coordinator.events import Decided, Leased, Note, Record, Stepped
from fedcore.coordinator.members import ClientRow, Roster
from fedcore.coordinator.published import Published
from fedcore.errors import CorruptJournalError
from fedcore.labels import counts_array, counts_list
from fedcore.measured import Measured
from fedcore.patch import publish
from fedcore.payloads import Payload, dense_payload
from fedcore.protocol import Epoch, Held, Patch, Plan, Receipt, Verdict
from fedcore.trees import Arrays, load_tree, save_tree, with_arrays
from fedcore.typing import JSON, Counts, Row, Seconds, State, Vector

# ---------------------------- what the server knows of an update when it decides on it


class Finished(Protocol):
    """A task that has ended with an update."""

    @property
    def base(self) -> int:
        """The version that it was trained on."""

    @property
    def steps(self) -> int:
        """The number of local steps; 0: it is what a leaving client's memory held."""

    @property
    def samples(self) -> int:
        """The number of samples that it was trained on."""

    @property
    def counts(self) -> Counts | None:
        """The number of samples of each class."""

    @property
    def loss(self) -> float | None:
        """The mean training loss; None or NaN: unknown."""

    @property
    def measured(self) -> Measured | None:
        """The cost of the training; None: unknown."""


class Flaw(NamedTuple):
    """A fault of an update itself, in any state of the server."""

    verdict: Verdict
    reason: str
    is_kept: bool = False  # the record keeps its bytes, to find the mistake by them


NO_TASK = Flaw(Verdict.REJECTED_POLICY, "no task stands behind this update")


class Decision(NamedTuple):
    """The server's decision on an update."""

    verdict: Verdict
    weight: float  # λ
    staleness: int  # in versions
    reason: str = ""


class Update(Finished, Protocol):
    """An update that waits for its decision."""

    @property
    def flaw(self) -> Flaw | None:
        """Its fault; None: its values are finite and not too large."""

    @property
    def payload(self) -> Payload | None:
        """Its values; None if they are a row of a stack, or cannot be read."""

    @property
    def client(self) -> str:
        """The id of the client that has sent it."""


def size_of(samples: int, measured: Measured | None) -> int:
    """Returns the size of a task: the samples that its steps used, if that is known.

    Args:
        samples: the client's.
        measured: what the training took; None: unknown.
    """
    return measured.samples if measured is not None and measured.samples else samples


class Arrived(NamedTuple):
    """An update that arrived as a message."""

    payload: Payload | None
    base: int
    samples: int
    counts: Counts | None
    steps: int
    client: str
    loss: float | None = None
    measured: Measured | None = None
    flaw: Flaw | None = None
    task: bool = True
    """Whether a task stands behind it."""


def efforts(
    algorithm: Algorithm, update: Update, own: ClientAlgorithmConfig
) -> dict[str, float]:
    """Returns what a contribution says of the steps of an update.

    Args:
        algorithm: the federation's.
        update: what has arrived.
        own: its client's settings.
    """
    if not update.steps:  # it is what a leaving client's memory held
        return {}
    work = Work(update.steps, update.samples, own.at(update.base), own)
    found = {"work": work.share}
    if "pace" in algorithm.aggregator.needs:
        most = algorithm.config.most_steps(update.samples, update.base, own)
        found["effort"] = work.whole
        found["pace"] = work.now.effort(min(update.steps, most))
    return found


# ---------- tasks that are judged before they are computed, by what their clients plan
#
# Damaskinos et al., "FLeet", Middleware 2020, arXiv 2006.07273, §2.4: the controller
# sits before the computation. Where a client says in its pull what it has, the update
# filter judges the task that it would get. An update of a task that passed is not
# judged again; the filter learns of it as it was announced.


class Announced(NamedTuple):
    """A task as it was judged before it was computed."""

    version: int
    """That of the model which the task trains on."""
    size: int
    """How many samples it uses, as :func:`fedcore.coordinator.state.size_of`."""
    counts: Counts | None
    """The labels of its client's samples (C,); None: it did not say."""


def announce(
    config: AlgorithmConfig,
    own: ClientAlgorithmConfig,
    plan: Plan,
    given: Assignment,
    version: int,
) -> Announced:
    """Returns the task that a client with this plan would get.

    Args:
        config: of the recipe.
        own: the settings of that client.
        plan: what the client says.
        given: what the controllers at the server give it.
        version: that it would train on.
    """
    size = plan.samples
    if config.uses_device:  # then its update says how many samples the steps used
        client = own.at(version)
        steps = client.steps_of(plan.samples, given.work, given.samples)
        size = client.with_samples(given.samples).used_by(plan.samples, steps)
    return Announced(version, size, plan.counts)


class Plans:
    """The tasks that passed, until their updates get a verdict; one a client."""

    def __init__(self) -> None:
        self._passed: dict[str, Announced] = {}

    def note(self, cid: str, task: Announced | None) -> None:
        """A client has got a task; None: one that was not judged before."""
        if task is None:
            self._passed.pop(cid, None)
        else:
            self._passed[cid] = task

    def note_lease(self, record: Leased) -> None:
        """A client has got a task, as a record of the journal says."""
        task = None
        if record.planned is not None:
            task = Announced(record.version, record.planned, record.counts)
        self.note(record.cid, task)

    def of(self, cid: str, base: int) -> Announced | None:
        """Returns what was announced of a client's task; None: it was not judged.

        Args:
            cid: the client.
            base: the version that its update was trained on.
        """
        task = self._passed.get(cid)
        return task if task is not None and task.version == base else None

    def dump(self) -> JSON:
        """Returns the tasks that passed, each as [client, version, size, counts]."""
        return [
            [cid, task.version, task.size, counts_list(task.counts)]
            for cid, task in self._passed.items()
        ]

    def load(self, saved: Mapping[str, JSON]) -> None:
        """Takes over what :meth:`dump` returned, from a snapshot's ``plans``."""
        self._passed = {
            cid: Announced(version, size, counts_array(counts))
            for cid, version, size, counts in saved["plans"]
        }


# ------ what roles have learnt from verdicts, on which later verdicts and tasks depend


ROLES = ("staleness", "update_filter", "controllers", "selection")
_REPORTED = (Verdict.ACCEPTED, Verdict.REJECTED_STALE, Verdict.REJECTED_POLICY)


class Learnt:
    """The states of the staleness policy, update filter, controllers and selection."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.staleness = algorithm.staleness.init()
        self.update_filter = algorithm.update_filter.init()
        self.controllers: State = None
        self.selection = algorithm.selection.init()
        self.plans = Plans()

    def learn(self, decision: Decision, cid: str, task: Finished, at: Seconds) -> None:
        """Lets all roles learn from a decision on an update.

        Args:
            decision: what became of it.
            cid: of its client.
            task: what it was computed by.
            at: when it was decided.
        """
        verdict, weight, staleness, _ = decision
        algorithm = self._algorithm
        if verdict is Verdict.ACCEPTED:
            self.staleness = algorithm.staleness.observe(
                self.staleness, staleness, task.counts, weight
            )
        if algorithm.filters_updates:
            self._filter(verdict, cid, task)
        if algorithm.observes_tasks and verdict is not Verdict.REJECTED_CLOSED:
            self._report(verdict, cid, task, at)

    def _filter(self, verdict: Verdict, cid: str, task: Finished) -> None:
        """Lets the update filter learn from a task, as it was announced if it was."""
        size, counts = size_of(task.samples, task.measured), task.counts
        if (plan := self.plans.of(cid, task.base)) is not None:
            size, counts = plan.size, plan.counts
        self.plans.note(cid, None)
        if verdict is Verdict.ACCEPTED:
            observe = self._algorithm.update_filter.observe
            self.update_filter = observe(self.update_filter, size, counts)
        elif verdict is Verdict.REJECTED_POLICY:
            self._refuse(size, counts)

    def decline(self, record: events.Declined) -> None:
        """Applies that a task was refused before it was computed."""
        self.plans.note(record.cid, None)
        self._refuse(record.planned, record.counts)

    def _refuse(self, size: int, counts: Counts | None) -> None:
        refused = self._algorithm.update_filter.refused
        if refused is not None:
            self.update_filter = refused(self.update_filter, size, counts)

    def _report(self, verdict: Verdict, cid: str, task: Finished, at: Seconds) -> None:
        """Tells the roles that learn from tasks.

        Of an update that is no honest one, the selection learns that it came.
        """
        report = TaskReport(at=at, client=cid, base=task.base, steps=0)
        if verdict in _REPORTED:
            loss = task.loss
            report = report._replace(
                steps=task.steps,
                loss=loss if loss is not None and math.isfinite(loss) else None,
                measured=task.measured,
                samples=task.samples,
            )
        controller = self._algorithm.server_controller
        selection = self._algorithm.selection
        if controller is not None and verdict in _REPORTED:
            self.controllers = controller.observe(self.controllers, report)
        if selection.observe is not None:
            self.selection = selection.observe(self.selection, report)

    def amend(self, algorithm: Algorithm) -> None:
        """Takes over other settings; roles whose settings changed start again."""
        old, new = self._algorithm.config, algorithm.config
        self._algorithm = algorithm
        if old.staleness != new.staleness:
            self.staleness = algorithm.staleness.init()
        if old.update_filter != new.update_filter:
            self.update_filter = algorithm.update_filter.init()
        if old.selection != new.selection:
            self.selection = algorithm.selection.init()
        if old.controllers != new.controllers and isinstance(self.controllers, dict):
            same = {each.kind for each in new.controllers if each in old.controllers}
            self.controllers = {
                kind: state for kind, state in self.controllers.items() if kind in same
            }

    def dump(self, arrays: Arrays) -> JSON:
        """The states of the roles as JSON; their arrays join the others."""
        return {role: save_tree(getattr(self, role), role, arrays) for role in ROLES}

    def load(self, known: JSON, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes over what :meth:`dump` returned."""
        for role in ROLES:
            tree = load_tree(getattr(self, role), known[role], arrays)
            setattr(self, role, tree)


# ----------------------- the durable state of a server, and how each record changes it


class ServerState:
    """All that a restart restores: X, W, the buffer, clients, and states of roles."""

    def __init__(
        self,
        algorithm: Algorithm,
        initial_D: Vector,
        epoch: Epoch,
        *,
        served: bool = True,
    ) -> None:
        initial_D = algorithm.spec.extend(initial_D)
        self.algorithm = algorithm
        self.at: Seconds = 0.0
        self.started: Seconds | None = None
        self.exact_D = initial_D
        self.published = Published(
            initial_D, epoch=epoch, layout=algorithm.spec.sizes, served=served
        )
        self.published.keep(algorithm.config.ring_bytes)
        self.optimizer = algorithm.server.init(algorithm.model.dim)
        self.buffer = algorithm.aggregator.init(algorithm.spec.dim)
        self.count = 0
        self.samples = 0.0
        self.entered = Counter[str]()
        """How many updates of each client are in the buffer."""
        self.learnt = Learnt(algorithm)
        self.roster = Roster()
        self._joined_before = 0  # trainers, when the newest version was made
        self.limit = algorithm.latest(0)
        """How many versions late an update may be."""
        self.bases: dict[int, Vector] = {}  # past public models, for mixing
        self.applied = 0  # updates that are in X
        self.evaluated: int | None = None  # the newest version that an evaluator has
        self.closed: str | None = None
        self.paused: str | None = None
        """Why the operator lets nobody begin to train; empty: it gave no reason."""
        self._aside: Callable[[Vector], Vector] | None = None
        self._remember_base()

    @property
    def clients(self) -> dict[str, ClientRow]:
        """All clients that have ever joined, by their ids."""
        return self.roster.clients

    @property
    def version(self) -> int:
        """The newest version."""
        return self.published.version

    @property
    def is_paused(self) -> bool:
        """Whether the operator lets nobody begin to train."""
        return self.paused is not None

    def entries_of(self, cid: str) -> int:
        """Returns how many updates of a client are in the buffer, under all its keys.

        A client with a certificate keeps its name with another key, so it is one
        member of the run.
        """
        namesakes = self.roster.namesakes(cid)
        return sum(self.entered.get(each, 0) for each in namesakes)

    @property
    def epoch(self) -> Epoch:
        """The name of this history."""
        return self.published.epoch

    @property
    def groups(self) -> Groups | None:
        """The groups on whose models clients train; None: all of them train on W."""
        return self.algorithm.aggregator.groups if self.version else None

    def group_of(self, cid: str) -> int:
        """Returns the group whose model a client trains on; 0 where all train on W."""
        groups = self.groups
        return 0 if groups is None else groups.of(self._number_of(cid), self.version)

    def model_of(self, group: int) -> Vector:
        """Returns the model that the clients of a group train on."""
        groups, published = self.groups, self.published
        if groups is None:
            return published.public_D
        model, buffer = groups.model, self.buffer
        return published.group_model(
            group, lambda: model(buffer, published.public_D, group)
        )

    def patch_to_train(self, cid: str, held: Held | None) -> Patch:
        """Returns the patch from what a client holds to the model that it trains on."""
        if self.groups is None:
            return self.published.patch(held)
        group = self.group_of(cid)
        return self.published.group_patch(group, self.model_of(group), held)

    def _number_of(self, cid: str) -> tuple[int, int]:
        """Returns a client's number among the clients, and how many there are.

        They are those of the part of the data that it first had. Clients that said none
        are numbered as they joined, as many as make a version, and then from 0 again.
        """
        row, buffer = self.clients.get(cid), self.algorithm.config.buffer
        if row is None:
            return 0, 1
        number, count = row.number
        return (number, count) if count > 1 else (number % buffer, buffer)

    def set_aside(self, aside: Callable[[Vector], Vector]) -> None:
        """Keeps vectors that only a step reads elsewhere, from now on.

        Args:
            aside: returns the same values, kept elsewhere; a step writes into them.
        """
        self._aside = aside
        self._lay_aside()

    def _lay_aside(self) -> None:
        if self._aside is None:
            return
        if not self.algorithm.config.downlink.is_exact:  # or W is X, which clients get
            self.exact_D = self._aside(self.exact_D)
        self.optimizer = with_arrays(self.optimizer, self._aside)

    def restore(self, record: Record, payload: Payload | None = None) -> None:
        """Applies a record of the journal.

        Args:
            record: to apply.
            payload: of an update, if it was unpacked before.
        """
        if isinstance(record, Decided):
            if record.verdict is Verdict.ACCEPTED and payload is None:
                payload = payloads.unpack(record.payload, self.algorithm.spec.sizes)
            self.decide(record, payload)
        elif isinstance(record, Stepped):
            packed = bytes(record.payload)
            layout = self.algorithm.spec.sizes
            self.step(
                lambda gap: (
                    (packed, payloads.unpack(packed, layout)) if packed else None
                )
            )
        else:
            self.note(record)
        self.touch(record.at)

    def touch(self, at: Seconds) -> None:
        """Takes over the time of an event; time never goes back."""
        if at > self.at:
            self.at = at
        if self.started is None:
            self.started = self.at

    def note(self, record: Note) -> None:
        """Applies a record that moves no model."""
        match record:
            case (
                events.Enrolled()
                | events.Freed()
                | events.Evicted()
                | events.Readmitted()
                | events.Departed()
            ):
                self.roster.note(record)
                self.limit = self.algorithm.latest(self.roster.trainers)
            case events.Paused():
                self.paused = record.reason
            case events.Unpaused():
                self.paused = None
            case events.HistoryForked():
                self.published.open_epoch(record.epoch)
            case events.Evaluated():
                if self.clients[record.cid].role == "evaluator":
                    self.evaluated = max(self.evaluated or 0, record.version)
            case events.Closed():
                self.closed = record.reason
            case events.RunResumed():
                self.closed = None
            case events.Declined():
                self.learnt.decline(record)
            case events.Leased():
                self.learnt.plans.note_lease(record)
            case (
                events.Cut()
                | events.Failed()
                | events.Lost()
                | events.Skipped()
                | events.Unproved()
                | events.Tallied()
                | events.ServerStarted()
                | events.ServerStopped()
                | events.SnapshotOrdered()
            ):
                pass
            case _:
                assert_never(record)

    def decide(self, record: Decided, payload: Payload | None) -> None:
        """Applies the record of a decision: all that followed from it but a version.

        Args:
            record: of the decision.
            payload: of the update, if it was accepted.
        """
        self.settle(record)
        decision = Decision(record.verdict, record.weight, record.staleness)
        if record.task:
            self.learnt.learn(decision, record.cid, record, self.at)
        if record.verdict is not Verdict.ACCEPTED:
            return
        assert payload is not None
        update = Arrived(
            payload,
            record.base,
            record.samples,
            record.counts,
            record.steps,
            record.cid,
        )
        self.take([update], [record.weight])

    def settle(self, record: Decided) -> None:
        """Stores a verdict in the row of its client."""
        row = self.clients[record.cid]
        row.store_verdict(
            Receipt(
                record.seq, record.digest, record.verdict, record.weight, self.version
            ),
            record.reason,
        )
        row.has_trained |= record.task
        if record.verdict is Verdict.ACCEPTED and not record.task:
            row.has_flushed = True

    def take(
        self,
        updates: Sequence[Update],
        weights: Sequence[float],
        rows: Sequence[Row] = (),
    ) -> None:
        """Adds accepted updates to the buffer.

        Args:
            updates: in the order of arrival.
            weights: λ of each of them.
            rows: the values of those updates that are rows of a stack.
        """
        aggregator, config = self.algorithm.aggregator, self.algorithm.config
        samples = config.count_each([update.samples for update in updates])
        if rows and aggregator.fold is not None:
            shares = [w * n for w, n in zip(weights, samples, strict=True)]
            self.buffer = aggregator.fold(self.buffer, rows, shares)
        else:
            for place, update in enumerate(updates):
                payload, client = update.payload, update.client
                if payload is None:
                    values_ND, row = rows[place]
                    payload = dense_payload(values_ND[row])
                gap_D = None
                if "gap" in aggregator.needs:
                    gap_D = self.exact_D - self.bases[update.base]
                self.buffer = aggregator.accumulate(
                    self.buffer,
                    Contribution(
                        payload,
                        weights[place],
                        samples[place],
                        gap_D,
                        client,
                        self.roster.trainers,
                        **efforts(self.algorithm, update, self.settings_of(client)),
                        base=update.base,
                        place=self._number_of(client),
                        member=self.roster.name_of(client),
                    ),
                )
        self.samples = sum(samples, self.samples)  # in the order of arrival
        self.count += len(updates)
        self.entered.update([update.client for update in updates])

    def settings_of(self, cid: str) -> ClientAlgorithmConfig:
        """Returns a client's settings; the common ones if it never enrolled."""
        settings = self.algorithm.clients
        if len(settings.all) == 1:
            return settings.all[0]
        row = self.clients.get(cid)
        return settings.all[0] if row is None else settings.of(row.name)

    @property
    def remembers(self) -> bool:
        """Whether clients fold rejected updates back into a memory."""
        return self.algorithm.config.uplink.holds != "nothing"

    def step(
        self,
        message_for: Callable[[Callable[[], Vector]], tuple[bytes, Payload] | None],
    ) -> bytes:
        """Moves X by the buffer, and then W by the message for W - X.

        Args:
            message_for: encodes W - X, which it asks for: the packed message, and what
                it decodes to; None leaves no message, and W becomes X.

        Returns:
            The packed message; empty if there is none.
        """
        algorithm = self.algorithm
        agg_D = algorithm.aggregator.finalize(self.buffer, self._divisor())
        if algorithm.aggregator.carry is not None:
            agg_D = agg_D.copy()  # the optimiser writes into it, and the buffer goes on
        self.exact_D = self._move(agg_D)
        self.buffer = self._next_buffer()
        del agg_D  # X may be in its memory, which is free once X is laid aside
        self._lay_aside()
        packed, message = message_for(
            lambda: self.published.public_D - self.exact_D
        ) or (b"", None)
        public_D = (
            self.exact_D
            if message is None
            else publish(self.published.public_D, message)
        )
        self.published.publish(public_D, packed or None, message)
        self.applied += self.count
        self.count, self.samples, self.entered = 0, 0.0, Counter()
        self._remember_base()
        return packed

    def _move(self, agg_D: Vector) -> Vector:
        """X after the server optimiser's step, and then the new companions."""
        algorithm, dim = self.algorithm, self.algorithm.model.dim
        joined, server = max(1, self.roster.joined), algorithm.server
        share, before = self.count / joined, self._joined_before / joined
        self._joined_before = joined
        update = server.update
        if server.of_share is not None:
            update = server.of_share(share, before)
        buffers = algorithm.model.buffers
        if buffers is not None:  # a mean of statistics is no direction to descend
            statistics_B = self.exact_D[buffers] - agg_D[buffers]
        model_D, self.optimizer = update(
            self.exact_D[:dim], agg_D[:dim], self.optimizer
        )
        if buffers is not None:
            model_D[buffers] = statistics_B
        if dim == algorithm.spec.dim:
            return model_D
        beside_D = algorithm.config.client.publish(
            self.exact_D[dim:], agg_D[dim:], share, before
        )
        return np.concatenate([model_D, beside_D])

    def _next_buffer(self) -> State:
        aggregator = self.algorithm.aggregator
        if aggregator.carry is None:
            return aggregator.init(self.algorithm.spec.dim)
        return aggregator.carry(self.buffer)

    def _divisor(self) -> float:
        """N; where updates are changes, those missing of K count as zeros."""
        config = self.algorithm.config
        if config.uplink.holds != "changes":
            return self.samples
        return self.samples * config.buffer / self.count

    def amend(self, algorithm: Algorithm) -> None:
        """Takes over other settings; roles whose settings changed start again.

        The buffer must be empty if the aggregator changes.
        """
        old, self.algorithm = self.algorithm, algorithm
        self.limit = algorithm.latest(self.roster.trainers)
        if not algorithm.config.server.keeps_state(old.config.server):
            self.optimizer = algorithm.server.init(algorithm.model.dim)
        if old.config.aggregator != algorithm.config.aggregator:
            assert not self.count
            self.buffer = algorithm.aggregator.init(algorithm.spec.dim)
        self.learnt.amend(algorithm)
        self.published.keep(algorithm.config.ring_bytes)
        self._remember_base()

    def _remember_base(self) -> None:
        if "gap" not in self.algorithm.aggregator.needs:
            self.bases.clear()
            return
        self.bases[self.version] = self.published.public_D
        oldest = self.version - self.limit
        for version in [v for v in self.bases if v < oldest]:
            del self.bases[version]

    def dump(self) -> tuple[JSON, Arrays]:
        """The state as JSON and its arrays, to be saved before the next event."""
        arrays: Arrays = {"exact": self.exact_D}
        published = self.published.dump(arrays)
        for version, base_D in self.bases.items():
            arrays[f"base.{version}"] = base_D
        scalars = {
            "at": self.at,
            "started": self.started,
            **published,
            "bases": list(self.bases),
            "count": self.count,
            "samples": self.samples,
            "entered": dict(self.entered),
            "applied": self.applied,
            "joined_before": self._joined_before,
            "evaluated": self.evaluated,
            "closed": self.closed,
            "paused": self.paused,
            **self.roster.dump(),
            "plans": self.learnt.plans.dump(),
            "roles": {
                "optimizer": save_tree(self.optimizer, "optimizer", arrays),
                "buffer": save_tree(self.buffer, "buffer", arrays),
                **self.learnt.dump(arrays),
            },
        }
        return scalars, arrays

    def load(self, scalars: JSON, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes over what :meth:`dump` returned, for the same algorithm."""
        self.at, self.started = scalars["at"], scalars["started"]
        self.exact_D = arrays["exact"]
        self.count, self.samples = scalars["count"], scalars["samples"]
        self.entered = Counter(scalars["entered"])
        self.applied, self.evaluated = scalars["applied"], scalars["evaluated"]
        self.closed = scalars["closed"]
        self.paused = scalars["paused"]
        self.roster.load(scalars)
        self._joined_before = scalars["joined_before"]
        self.limit = self.algorithm.latest(self.roster.trainers)
        self.learnt.plans.load(scalars)
        self.bases = {
            version: arrays[f"base.{version}"] for version in scalars["bases"]
        }
        roles = scalars["roles"]
        self.optimizer = load_tree(self.optimizer, roles["optimizer"], arrays)
        buffer = load_tree(self.buffer, roles["buffer"], arrays)
        if isinstance(buffer, dict) != isinstance(self.buffer, dict):
            raise CorruptJournalError("a snapshot whose buffer is of another program")
        self.buffer = buffer
        self.learnt.load(roles, arrays)
        self.published.load(scalars, arrays)
