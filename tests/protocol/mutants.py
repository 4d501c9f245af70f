"""Deliberately wrong variants of the protocol, each of which must be caught.

Every one is a mistake that somebody could make in good faith; many are what other
systems do. A model check that lets one of them pass proves nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from random import getrandbits
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from fedclient.state import store as store_module
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import OverlapLocalSGD
from fedcore.compressors import ErrorFeedback
from fedcore.coordinator import Coordinator, Rounds
from fedcore.coordinator import answers as claims
from fedcore.coordinator import machine as coordinator_module
from fedcore.coordinator.actions import Persist, SendAck
from fedcore.coordinator.events import Departed, Stepped
from fedcore.coordinator.leases import Leases
from fedcore.coordinator.machine import Pulls, acknowledge
from fedcore.coordinator.members import ClientRow
from fedcore.coordinator.published import Published
from fedcore.coordinator.state import ServerState
from fedcore.participant import Outcome, Participant, ParticipantState, machine
from fedcore.payloads import decode, dense_payload, pack, unpack
from fedcore.proofs import Authenticator
from fedcore.protocol import Ack, Answer, Push, Receipt, Settled, Verdict
from fedrun.commit import GroupCommit
from tests.protocol import client as client_module
from tests.protocol.ghost import vector
from tests.protocol.parts import SPEC
from tests.protocol.server import CheckedServer

Mutant = Callable[[ExitStack], None]
MUTANTS: dict[str, Mutant] = {}


def mutant(function: Mutant) -> Mutant:
    """Registers a wrong variant under its name."""
    MUTANTS[function.__name__] = function
    return function


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The code with this mistake in it."""
    with ExitStack() as stack:
        MUTANTS[name](stack)
        yield


def _swap(stack: ExitStack, owner: Any, name: str, new: Any) -> Any:
    """Replaces an attribute for a while; returns the old one."""
    old = getattr(owner, name)
    stack.enter_context(patch.object(owner, name, new))
    return old


# ------------------------------------------------------------------- the client


@mutant
def residual_committed_at_send(stack: ExitStack) -> None:
    def sent(*args: Any) -> ParticipantState:
        state: ParticipantState = old_sent(*args)
        pending = state.pending
        assert pending is not None
        zero = np.zeros_like(pending.residual_D)
        return replace(
            state,
            memory_D=pending.residual_D,
            pending=replace(pending, residual_D=zero),
        )

    def settled(
        algorithm: Any, state: Any, verdict: Verdict, *args: Any, **kw: Any
    ) -> ParticipantState:
        verdict = Verdict.ACCEPTED if verdict.returns_mass else verdict
        return cast(
            ParticipantState, old_settled(algorithm, state, verdict, *args, **kw)
        )

    old_sent = _swap(stack, machine, "put_in_flight", sent)
    old_settled = _swap(stack, machine, "settle", settled)


@mutant
def fold_back_on_a_missing_ack(stack: ExitStack) -> None:
    def pull(self: Participant, nonce: int) -> Any:
        if self.state.pending is not None:
            self.state = machine.settle(
                self.algorithm, self.state, Verdict.REJECTED_STALE, 0, sent_once=True
            )
        return old(self, nonce)

    old = _swap(stack, Participant, "pull", pull)


@mutant
def abandoned_histories_are_not_told(stack: ExitStack) -> None:
    def pull(self: Participant, nonce: int) -> Any:
        return replace(old(self, nonce), abandoned=())

    old = _swap(stack, Participant, "pull", pull)


@mutant
def settle_by_number_without_digest(stack: ExitStack) -> None:
    def settle(self: Participant, ack: Ack) -> Outcome:
        pending = self.state.pending
        if pending is not None and ack.seq == pending.push.seq:
            ack = replace(ack, digest=pending.push.digest)
        return old(self, ack)

    old = _swap(stack, Participant, "settle", settle)


@mutant
def memory_overwritten_instead_of_added(stack: ExitStack) -> None:
    def folded(algorithm: Any, memory_D: Any, *args: Any) -> Any:
        return old(algorithm, memory_D * 0, *args)

    old = _swap(stack, machine, "fold_back", folded)


@mutant
def empty_round_caps_the_memory(stack: ExitStack) -> None:
    def limit(self: ErrorFeedback, memory_D: Any, delta_D: Any) -> Any:
        return memory_D if delta_D.any() else memory_D * 0

    _swap(stack, ErrorFeedback, "limit", limit)


@mutant
def answers_to_old_pulls_are_taken(stack: ExitStack) -> None:
    def receive(self: Participant, reply: Any, messages: Any = None) -> bool:
        self._nonce = reply.nonce
        return old(self, reply, messages)

    old = _swap(stack, Participant, "receive", receive)


@mutant
def two_messages_in_flight(stack: ExitStack) -> None:
    def finish(self: Participant, *args: Any) -> bool:
        self.state = replace(self.state, pending=None)
        return old(self, *args)

    old = _swap(stack, Participant, "finish", finish)


@mutant
def update_of_another_history_is_sent(stack: ExitStack) -> None:
    def finish(self: Participant, trained: Any, base: Any, key: Any) -> bool:
        return old(self, trained, base._replace(epoch=self.state.epoch), key)

    old = _swap(stack, Participant, "finish", finish)


@mutant
def old_disk_goes_unnoticed(stack: ExitStack) -> None:
    def settle(self: Participant, ack: Ack) -> Outcome:
        if ack.answer is Answer.OBSOLETE:
            return Outcome.RETRY
        return old(self, ack)

    _swap(stack, machine, "check_disk", lambda state, receipt: None)
    old = _swap(stack, Participant, "settle", settle)


@mutant
def history_is_not_kept(stack: ExitStack) -> None:
    _swap(stack, machine, "limit_history", lambda algorithm, state, history: ())


@mutant
def rejected_messages_are_not_in_the_history(stack: ExitStack) -> None:
    def bounded(algorithm: Any, state: Any, history: Any) -> Any:
        return old(algorithm, state, [sent for sent in history if sent.in_model])

    old = _swap(stack, machine, "limit_history", bounded)


@mutant
def residual_is_damped(stack: ExitStack) -> None:
    def sent(state: Any, packed: Any, residual_D: Any, *args: Any) -> Any:
        return old(state, packed, residual_D * np.float32(0.5), *args)

    old = _swap(stack, machine, "put_in_flight", sent)


@mutant
def residual_of_the_values_before_encoding(stack: ExitStack) -> None:
    """What was selected counts as sent, and not what its bytes say."""

    def sent(state: Any, packed: Any, residual_D: Any, *args: Any) -> Any:
        left_D = np.where(vector(packed) != 0, np.float32(0), residual_D)
        return old(state, packed, left_D, *args)

    old = _swap(stack, machine, "put_in_flight", sent)


# --------------------------------------------- clients that train on meanwhile


def _local_model(change: Callable[[Any, Any], Any]) -> Mutant:
    """A discarded update changes the client's own model in another way."""

    def wrong(stack: ExitStack) -> None:
        def take_back(self: OverlapLocalSGD, kept: Any, gone_D: Any) -> Any:
            return change(kept, np.append(gone_D, np.float32(0)))

        _swap(stack, OverlapLocalSGD, "take_back", take_back)

    return wrong


MUTANTS |= {
    "discarded_update_stays_in_the_local_model": _local_model(lambda x, q: x),
    "local_steps_count_twice": _local_model(lambda x, q: x - q),
}


@mutant
def rejected_update_is_taken_out_of_the_local_model(stack: ExitStack) -> None:
    def is_gone(uplink: Any, verdict: Verdict, **_: Any) -> bool:
        return verdict is not Verdict.ACCEPTED

    _swap(stack, machine, "is_gone", is_gone)


@mutant
def local_model_of_another_history_is_kept(stack: ExitStack) -> None:
    _swap(stack, OverlapLocalSGD, "fork_state", lambda self, kept: kept)


@mutant
def steps_from_another_start_are_used(stack: ExitStack) -> None:
    _swap(stack, client_module, "may_use", lambda *_: True)


@mutant
def trains_on_from_the_steps_before_they_met_the_model(stack: ExitStack) -> None:
    def meet(self: OverlapLocalSGD, public_D: Any, kept: Any) -> Any:
        return old(self, public_D, kept)[0], kept

    old = _swap(stack, OverlapLocalSGD, "_meet", meet)


@mutant
def sends_before_the_verdict_and_trains_on(stack: ExitStack) -> None:
    """Two messages in flight, of a client that overlaps."""

    def finished(algorithm: Any, state: Any, *args: Any) -> Any:
        if algorithm.config.client.overlaps:
            state = replace(state, pending=None)
        return old(algorithm, state, *args)

    old = _swap(stack, machine, "end_task", finished)


# ------------------------------------------------------------------- the server


@mutant
def receipt_before_durable(stack: ExitStack) -> None:
    def feed(self: CheckedServer, event: Any) -> None:
        old(self, event)
        actions, self.group._actions = self.group._actions, []
        self._release(actions)

    old = _swap(stack, CheckedServer, "feed", feed)


@mutant
def receipt_stored_after_the_ack(stack: ExitStack) -> None:
    def settle(self: ServerState, record: Any) -> None:
        row = self.clients[record.cid]
        waiting = getattr(self, "_waiting", None)
        if waiting is not None:
            waiting[0].receipt = waiting[1]
        before = row.receipt
        old(self, record)
        self._waiting = (row, row.receipt)  # type: ignore[attr-defined]
        if record.seq % 2 == 0:
            row.receipt = before or Receipt(0, "", Verdict.ACCEPTED, 0.0, 0)

    def acknowledge(push: Push, state: ServerState, proofs: Any) -> Any:
        row, receipt = state._waiting  # type: ignore[attr-defined]
        kept, row.receipt = row.receipt, receipt
        answer = old_acknowledge(push, state, proofs)
        row.receipt = kept
        return answer

    old = _swap(stack, ServerState, "settle", settle)
    old_acknowledge = _swap(stack, coordinator_module, "acknowledge", acknowledge)


@mutant
def verdict_recomputed_on_a_duplicate(stack: ExitStack) -> None:
    def push(self: Coordinator, event: Any) -> Any:
        message, row = event.push, self.state.clients.get(event.push.cid)
        if row is not None and row.seq == message.seq and row.receipt is not None:
            row.receipt = row.receipt._replace(seq=message.seq - 1)
        return old(self, event)

    old = _swap(stack, Coordinator, "_push", push)


@mutant
def other_epoch_stored_as_a_verdict(stack: ExitStack) -> None:
    def push(self: Coordinator, event: Any) -> Any:
        [*others, last] = old(self, event)
        message = event.push
        row = self.state.clients.get(message.cid)
        answer = last.ack.answer if isinstance(last, SendAck) else None
        if answer is Answer.OTHER_EPOCH and row is not None:
            verdict = Verdict.REJECTED_STALE
            row.store_verdict(Receipt(message.seq, message.digest, verdict, 0.0, 0), "")
            last = acknowledge(message, self.state, self.proofs)
        return [*others, last]

    old = _swap(stack, Coordinator, "_push", push)


@mutant
def same_epoch_after_a_restore(stack: ExitStack) -> None:
    def open_epoch(self: Coordinator, epoch: str, reason: str) -> Any:
        return old(self, self.state.epoch if "backup" in reason else epoch, reason)

    old = _swap(stack, Coordinator, "_open_epoch", open_epoch)


@mutant
def epoch_counted_up(stack: ExitStack) -> None:
    def open_epoch(self: Coordinator, epoch: str, reason: str) -> Any:
        return old(self, f"{int(self.state.epoch, 16) + 1:016x}", reason)

    old = _swap(stack, Coordinator, "_open_epoch", open_epoch)


@mutant
def rollback_goes_unnoticed(stack: ExitStack) -> None:
    _swap(stack, coordinator_module, "later_states", lambda *_: [])


@mutant
def another_verdict_is_no_contradiction(stack: ExitStack) -> None:
    def contradicts(self: ClientRow, settled: Settled) -> bool:
        return settled.seq > self.seq

    _swap(stack, ClientRow, "contradicts", contradicts)


@mutant
def claims_need_no_proof(stack: ExitStack) -> None:
    _swap(stack, Authenticator, "confirms", lambda *_: True)


@mutant
def a_push_opens_a_history(stack: ExitStack) -> None:
    def push(self: Coordinator, event: Any) -> Any:
        before, answers = self.unproved, old(self, event)
        if self.unproved == before:
            return answers
        reason = "somebody knows a later state than this one"
        name = f"{getrandbits(64):016x}"
        return [*self._open_epoch(name, reason), *answers]

    old = _swap(stack, Coordinator, "_push", push)


@mutant
def proofs_without_the_epoch(stack: ExitStack) -> None:
    def mac(self: Authenticator, domain: bytes, epoch: str, *told: object) -> int:
        return old(self, domain, *told)

    old = _swap(stack, Authenticator, "_mac", mac)


@mutant
def proofs_of_versions_without_the_epoch(stack: ExitStack) -> None:
    def version(self: Authenticator, epoch: str, version: int) -> int:
        return old(self, "", version)

    old = _swap(stack, Authenticator, "version", version)


@mutant
def proofs_of_verdicts_without_the_epoch(stack: ExitStack) -> None:
    def verdict(self: Authenticator, epoch: str, *told: Any) -> int:
        return old(self, "", *told)

    old = _swap(stack, Authenticator, "verdict", verdict)


@mutant
def proofs_without_the_client(stack: ExitStack) -> None:
    def verdict(self: Authenticator, epoch: str, cid: str, *told: Any) -> int:
        return old(self, epoch, "", *told)

    old = _swap(stack, Authenticator, "verdict", verdict)


@mutant
def proofs_without_the_secret(stack: ExitStack) -> None:
    def init(self: Authenticator, secret: Any = None) -> None:
        old(self, b"known to anybody")

    old = _swap(stack, Authenticator, "__init__", init)


@mutant
def proofs_of_all_things_alike(stack: ExitStack) -> None:
    """A proof of a later state is one of any later state."""

    def mac(self: Authenticator, domain: bytes, epoch: str, *told: object) -> int:
        return old(self, b"all", epoch)

    old = _swap(stack, Authenticator, "_mac", mac)


@mutant
def a_secret_for_each_process(stack: ExitStack) -> None:
    recover = import_module("fedrun.journal.recover")
    _swap(stack, recover, "secret_of", lambda _: getrandbits(128).to_bytes(16))


@mutant
def verdicts_proved_in_the_epoch_of_the_server(stack: ExitStack) -> None:
    def acknowledge(push: Push, state: ServerState, proofs: Any) -> Any:
        return old(replace(push, epoch=state.epoch), state, proofs)

    old = _swap(stack, coordinator_module, "acknowledge", acknowledge)


@mutant
def versions_leave_without_proof(stack: ExitStack) -> None:
    def installed(state: Any, reply: Any, *args: Any) -> Any:
        return old(state, replace(reply, proof=0), *args)

    old = _swap(stack, machine, "install", installed)


@mutant
def proof_of_a_version_forgotten_when_it_is_held(stack: ExitStack) -> None:
    def installed(state: Any, reply: Any, *args: Any) -> Any:
        state = old(state, reply, *args)
        return replace(state, held=state.held._replace(proof=reply.proof))

    old = _swap(stack, machine, "install", installed)


@mutant
def proofs_of_verdicts_are_not_kept(stack: ExitStack) -> None:
    def settled(algorithm: Any, state: Any, verdict: Any, proof: Any, **kw: Any) -> Any:
        return old(algorithm, state, verdict, 0, **kw)

    old = _swap(stack, machine, "settle", settled)


@mutant
def proofs_of_what_was_left_are_not_kept(stack: ExitStack) -> None:
    def changed(algorithm: Any, state: Any, reply: Any) -> Any:
        return old(algorithm, state, replace(reply, left=0))

    old = _swap(stack, machine, "change_history", changed)


@mutant
def proofs_do_not_lie_on_the_disk(stack: ExitStack) -> None:
    def facts(state: Any, *args: Any) -> Any:
        return old(machine.strip_proofs(state), *args)

    old = _swap(stack, store_module, "facts_of", facts)


@mutant
def patch_labelled_one_version_early(stack: ExitStack) -> None:
    def named(self: Published, *args: Any) -> Any:
        made = old(self, *args)
        return replace(made, version=max(0, made.version - 1))

    old = _swap(stack, Published, "_make_patch", named)


@mutant
def base_known_by_number_without_digest(stack: ExitStack) -> None:
    def knows(self: Published, held: Any) -> bool:
        return held.version <= self.version and held.version >= self.ring[0].version

    _swap(stack, Published, "_knows", knows)


@mutant
def messages_summed_in_float32_for_catch_up(stack: ExitStack) -> None:
    def replay(self: Published, start: int) -> Any:
        missed = self._find_missed(start)
        if len(missed) < 2:
            return old(self, start)
        messages = [unpack(entry.message or b"", SPEC.sizes) for entry in missed]
        packed = pack(dense_payload(sum(map(decode, messages))))
        return self._make_patch("replay", start, [packed], [len(packed)])

    old = _swap(stack, Published, "_replay", replay)


@mutant
def first_message_left_out_of_catch_up(stack: ExitStack) -> None:
    def replay(self: Published, start: int) -> Any:
        made = old(self, start)
        if made is None or len(made.parts) < 3:
            return made
        return self._make_patch("replay", start, made.parts[1:], made.lengths[1:])

    old = _swap(stack, Published, "_replay", replay)


@mutant
def deadline_step_is_not_journalled(stack: ExitStack) -> None:
    def take(self: GroupCommit, actions: list[Any]) -> None:
        kept = [
            action
            for action in actions
            if not (
                isinstance(action, Persist)
                and isinstance(action.record, Stepped)
                and action.record.reason == "deadline"
            )
        ]
        old(self, kept)

    old = _swap(stack, GroupCommit, "take", take)


@mutant
def leaving_forgets_the_receipt(stack: ExitStack) -> None:
    def note(self: ServerState, record: Any) -> None:
        old(self, record)
        if isinstance(record, Departed):
            del self.clients[record.cid]

    old = _swap(stack, ServerState, "note", note)


@mutant
def divided_by_the_sum_of_weights(stack: ExitStack) -> None:
    def step(self: ServerState, message_for: Any) -> Any:
        self.samples = self.samples * 0.5
        return old(self, message_for)

    old = _swap(stack, ServerState, "step", step)


@mutant
def snapshot_without_the_buffer(stack: ExitStack) -> None:
    def dump(self: ServerState) -> Any:
        scalars, arrays = old(self)
        scalars["count"] = 0
        return scalars, arrays

    old = _swap(stack, ServerState, "dump", dump)


@mutant
def accepted_numbers_are_not_remembered(stack: ExitStack) -> None:
    def decided(self: ClientRow, receipt: Receipt, reason: str) -> None:
        old(self, receipt, reason)
        while len(self.accepted) > 1:
            self.accepted.popleft()

    old = _swap(stack, ClientRow, "store_verdict", decided)


# ------------------------------------------------------------ snapshots and timers


def _loses(*roles: str) -> Mutant:
    """A snapshot that does not bring back what these roles had learnt."""

    def lose(stack: ExitStack) -> None:
        def load(self: ServerState, scalars: Any, arrays: Any) -> None:
            places = [self, self.learnt]
            fresh = [
                (place, role, getattr(place, role))
                for place in places
                for role in roles
                if hasattr(place, role)
            ]
            assert len(fresh) == len(roles)
            old(self, scalars, arrays)
            for place, role, state in fresh:
                setattr(place, role, state)

        old = _swap(stack, ServerState, "load", load)

    return lose


MUTANTS |= {
    "snapshot_without_the_optimizer": _loses("optimizer"),
    "snapshot_without_the_staleness_policy": _loses("staleness"),
    "snapshot_without_the_update_filter": _loses("update_filter"),
    "snapshot_without_the_sum": _loses("buffer"),
}


def _dumps(change: Callable[[Any], None]) -> Mutant:
    """A snapshot whose numbers are other ones."""

    def spoil(stack: ExitStack) -> None:
        def dump(self: ServerState) -> Any:
            scalars, arrays = old(self)
            change(scalars)
            return scalars, arrays

        old = _swap(stack, ServerState, "dump", dump)

    return spoil


def _forget_numbers(scalars: Any) -> None:
    for row in scalars["clients"]:
        row["accepted"] = row["accepted"][-1:]


def _forget_receipts(scalars: Any) -> None:
    for row in scalars["clients"]:
        row["receipt"] = None


MUTANTS |= {
    "snapshot_without_sample_weights": _dumps(
        lambda scalars: scalars.update(samples=float(scalars["count"]))
    ),
    "snapshot_without_the_updates_so_far": _dumps(
        lambda scalars: scalars.update(applied=0)
    ),
    "snapshot_with_the_newest_version_alone": _dumps(
        lambda scalars: scalars.update(ring=scalars["ring"][-1:])
    ),
    "snapshot_with_one_accepted_number": _dumps(_forget_numbers),
    "snapshot_without_receipts": _dumps(_forget_receipts),
    "snapshot_without_the_end": _dumps(lambda scalars: scalars.update(closed=None)),
    "snapshot_without_the_pause": _dumps(lambda scalars: scalars.update(paused=None)),
    "snapshot_without_evictions": _dumps(lambda scalars: scalars.update(evicted={})),
}


@mutant
def samples_weigh_without_their_cap(stack: ExitStack) -> None:
    def counted(self: AlgorithmConfig, samples: int) -> float:
        return 1.0 if self.weigh_by == "updates" else samples

    _swap(stack, AlgorithmConfig, "count_update", counted)


@mutant
def samples_do_not_weigh(stack: ExitStack) -> None:
    _swap(stack, AlgorithmConfig, "count_update", lambda self, samples: 1.0)


@mutant
def tasks_are_given_in_a_pause(stack: ExitStack) -> None:
    _swap(stack, ServerState, "is_paused", False)


@mutant
def evicted_clients_are_heard(stack: ExitStack) -> None:
    _swap(stack, ClientRow, "is_out", property(lambda self: self.left))


@mutant
def evicted_clients_enrol_again(stack: ExitStack) -> None:
    _swap(stack, claims, "eviction", lambda *_: None)


@mutant
def old_deadline_makes_a_version(stack: ExitStack) -> None:
    _swap(stack, Rounds, "is_void", lambda *_: False)


@mutant
def deadline_makes_a_version_after_the_end(stack: ExitStack) -> None:
    def passed(self: Rounds, timer: Any) -> Any:
        closed, self.state.closed = self.state.closed, None
        if self.is_void(timer) or not self.state.count:
            self.state.closed = closed
            return []
        actions = self._step("deadline")
        self.state.closed = closed
        return actions

    _swap(stack, Rounds, "deadline_passed", passed)
    _swap(stack, Rounds, "is_void", lambda *_: False)


@mutant
def old_lease_ends_a_newer_one(stack: ExitStack) -> None:
    def awaits(self: Leases, cid: str, number: int) -> bool:
        return self.busy.get(cid) is not None

    _swap(stack, Leases, "awaits", awaits)


@mutant
def old_hold_answers_a_newer_pull(stack: ExitStack) -> None:
    def is_held(self: Pulls, timer: Any) -> bool:
        return timer.subject in self._pulls

    _swap(stack, Pulls, "is_held", is_held)


# ------------------------------------------------------------------ tasks and votes


def _tasks_without(place: int, value: Any) -> Mutant:
    """The proof of a task does not depend on one of epoch, client, version and seq."""

    def forget(stack: ExitStack) -> None:
        def task(self: Authenticator, *told: Any) -> int:
            return old(self, *told[:place], value, *told[place + 1 :])

        old = _swap(stack, Authenticator, "task", task)

    return forget


MUTANTS |= {
    "tasks_of_any_history": _tasks_without(0, ""),
    "tasks_of_any_client": _tasks_without(1, ""),
    "tasks_of_any_version": _tasks_without(2, 0),
    "tasks_that_are_used_twice": _tasks_without(3, 0),
    "snapshot_without_who_has_entered": _dumps(
        lambda scalars: scalars.update(entered={})
    ),
}


@mutant
def tasks_need_no_proof(stack: ExitStack) -> None:
    _swap(stack, Authenticator, "allows", lambda *_: True)


@mutant
def tasks_of_another_run(stack: ExitStack) -> None:
    """The proof is made without the secret of the run."""
    secret = b"known to anybody"

    def task(self: Authenticator, *told: Any) -> int:
        return old(Authenticator(secret), *told)

    old = _swap(stack, Authenticator, "task", task)


@mutant
def a_task_ends_with_its_lease(stack: ExitStack) -> None:
    def has_task(self: Coordinator, push: Push) -> bool:
        lease = self.rounds.leases.busy.get(push.cid)
        return lease is not None and lease.version == push.base.version

    _swap(stack, Coordinator, "_has_task", has_task)


@mutant
def a_task_is_that_of_the_newest_pull(stack: ExitStack) -> None:
    """A delayed copy of a pull would take a task away from its client."""

    def grant(self: Rounds, at: float) -> Any:
        grants = old(self, at)
        for lease in grants.leases:
            newest[lease.cid] = lease.version
        return grants

    def has_task(self: Coordinator, push: Push) -> bool:
        known = newest.get(push.cid, push.base.version)
        return known == push.base.version and old_has_task(self, push)

    newest: dict[str, int] = {}
    old = _swap(stack, Rounds, "grant", grant)
    old_has_task = _swap(stack, Coordinator, "_has_task", has_task)


@mutant
def any_message_may_be_a_farewell(stack: ExitStack) -> None:
    def is_farewell(self: Coordinator, push: Push) -> bool:
        return not push.steps

    _swap(stack, Coordinator, "_is_farewell", is_farewell)


@mutant
def any_verdict_gives_a_right_to_a_farewell(stack: ExitStack) -> None:
    def is_farewell(self: Coordinator, push: Push) -> bool:
        row = self.state.clients[push.cid]
        return not push.steps and row.receipt is not None and not row.has_flushed

    _swap(stack, Coordinator, "_is_farewell", is_farewell)


@mutant
def whoever_leaves_needs_a_task(stack: ExitStack) -> None:
    _swap(stack, Coordinator, "_is_farewell", lambda *_: False)


@mutant
def whoever_leaves_enters_a_cohort_again(stack: ExitStack) -> None:
    _swap(stack, Coordinator, "_is_crowded", lambda *_, **__: False)


@mutant
def who_has_delivered_is_kept_in_memory_alone(stack: ExitStack) -> None:
    _swap(stack, ServerState, "entries_of", lambda *_: 0)


@mutant
def a_replacement_is_drawn_from_the_cohort(stack: ExitStack) -> None:
    def arrive(self: Leases, cid: str) -> None:
        delivered, self.delivered = self.delivered, {}
        self._members.pop(cid, None)
        old(self, cid)
        self.delivered = delivered

    old = _swap(stack, Leases, "arrive", arrive)
    _swap(stack, Leases, "validate", lambda _: None)


@mutant
def a_deadline_forgets_who_has_delivered(stack: ExitStack) -> None:
    def passed(self: Rounds, timer: Any) -> Any:
        actions, attempt = old(self, timer), self.leases.attempt
        if attempt:
            gone, self.leases.delivered = self.leases.delivered, {}
            self.state.entered.clear()
            for cid in gone:
                self.leases._members.pop(cid, None)
                self.leases._place(cid)
        return actions

    old = _swap(stack, Rounds, "deadline_passed", passed)
    _swap(stack, Leases, "validate", lambda _: None)


@mutant
def a_buffer_has_places_without_end(stack: ExitStack) -> None:
    def line_up(self: Leases, cid: str) -> None:
        self._free[cid] = None

    _swap(stack, Leases, "_line_up", line_up)
    _swap(stack, Leases, "validate", lambda _: None)


@mutant
def a_paused_run_takes_late_updates_in(stack: ExitStack) -> None:
    _swap(stack, coordinator_module, "why_waiting", lambda _: "")


@mutant
def a_pause_is_a_verdict(stack: ExitStack) -> None:
    def answer(push: Push, told: Any, reason: str = "") -> Any:
        made = old(push, told, reason)
        if told is not Answer.RETRY:
            return made
        verdict = Verdict.REJECTED_POLICY
        return replace(made, ack=replace(made.ack, answer=verdict))

    old = _swap(stack, coordinator_module, "answer_push", answer)
