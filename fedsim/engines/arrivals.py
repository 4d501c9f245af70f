"""Simulates the order of arrival that a real run recorded.

The journal holds which client delivered which update, in which order, and on which
base version. The result of a task depends on nothing else. So the same app and config
give the same model bit for bit, and another config shows what would have happened.

Without some clients the rounds stay as they were: the places of their updates stay
empty. With another buffer there are other versions. A client then begins with the one
that is the newest when the recorded run made the version that the client began with.
:mod:`fedrun.journal.restored` and ``replay`` map versions in the same way.
"""

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import (
    Closed,
    Decided,
    Declined,
    Enrolled,
    HistoryForked,
    Leased,
    Stepped,
    StepReason,
    StopRequested,
)
from fedcore.errors import ConfigError
from fedcore.participant import Participant
from fedcore.protocol import Reply, Verdict
from fedcore.typing import Seconds
from fedcore.workload import Client
from fedrun.config import SimulateConfig, parse_config
from fedrun.journal import Journal
from fedrun.journal.store import Row
from fedsim.engines.exact import ExactClients
from fedsim.world import World

_log = logging.getLogger("fedsim")


def read_clients(config: SimulateConfig, folder: Path) -> list[Client]:
    """Returns the trainers of a recorded run.

    Args:
        config: the section ``simulate`` of the config.
        folder: the folder of the recorded run.

    Raises:
        ConfigError: no client took part in it, or a client to leave out does not exist.
    """
    with closing(Journal.open(folder, read_only=True)) as journal:
        enrolled = [
            entry.record
            for entry in journal.store.find(Enrolled.__name__)
            if isinstance(entry.record, Enrolled) and entry.record.role == "trainer"
        ]
    if not enrolled:
        raise ConfigError(f"simulate.arrivals: {folder} has no clients")
    names = {record.name: record for record in enrolled}
    unknown = sorted(set(config.without) - set(names))
    if unknown:
        raise ConfigError(
            f"simulate.without: no client {', '.join(unknown)}; there are "
            f"{', '.join(names)}"
        )
    for name in config.without:
        del names[name]
    return [
        Client(record.name, record.index, record.count, config.args)
        for record in names.values()
    ]


def read_start(folder: Path) -> Seconds:
    """Returns the time at which a recorded run began."""
    with closing(Journal.open(folder, read_only=True)) as journal:
        return journal.configurations()[0][1].at


def replay_arrivals(world: World, clients: ExactClients, folder: Path) -> None:
    """Trains the recorded updates anew, and feeds them in the recorded order.

    A record comes before everything else that is due at its time, since a real server
    may have decided on an update just before its own timer fired.

    Args:
        world: the run.
        clients: its clients, which are those of the recorded run.
        folder: the folder of the recorded run.

    Raises:
        ConfigError: a client went back to an older version than the newest one.
    """
    with closing(Journal.open(folder, read_only=True)) as journal:
        records = [entry.record for entry in journal.entries()]
        known = {**journal.configurations()[-1][1].config}
    known.pop("simulate", None)  # the number of clients has no effect
    recorded = parse_config(known).algorithm.update_filter
    _warn_of_other_memories(records, folder)
    same_filter = recorded == world.run.config.algorithm.update_filter
    left_out = set(world.run.config.simulate.without)
    names = {
        r.cid: r.name
        for r in records
        if isinstance(r, Enrolled) and r.name not in left_out
    }
    participants = {
        client.name: participant
        for client, participant in zip(
            clients.clients, clients.participants, strict=True
        )
    }
    updates = [r for r in records if isinstance(r, Decided) and r.cid in names]
    coming: dict[str, list[Decided]] = {}
    for update in updates:
        coming.setdefault(names[update.cid], []).append(update)
    started: set[str] = set()

    def start_those_due(version: int) -> None:
        """Starts the clients whose next update is based on this recorded version."""
        for name, queue in coming.items():
            if queue and name not in started and queue[0].base == version:
                _fetch(world, participants[name])
                clients.compare(name)
                started.add(name)

    places = _Places(world)
    newest = 0  # of the recorded versions
    start_those_due(newest)
    for record in records:
        world.clock.now = max(world.clock.now, record.at)
        if isinstance(record, Decided) and record.cid in names:
            name = names[record.cid]
            if name not in started:
                raise ConfigError(
                    f"simulate.arrivals: {name} trained on version {record.base}, "
                    "which was not the newest one after its update before"
                )
            clients.deliver(name, record.steps)
            coming[name].pop(0)
            started.discard(name)
            places.close_if_full(record.at)
        elif isinstance(record, Decided):
            places.leave_empty(record)
        elif isinstance(record, Leased | Declined):
            if same_filter and record.cid in names:
                _judge_before(world, replace(record, cid=names[record.cid]))
        elif isinstance(record, Stepped):
            if record.reason in ("complete", "deadline"):
                places.close(record.at, record.reason)
            newest = record.version
        elif isinstance(record, Closed) and world.ended is None:
            world.feed(StopRequested(at=record.at, reason=record.reason))
        start_those_due(newest)
        world.catch_up()


class _Places:
    """The places of the current round, some of which are left empty."""

    def __init__(self, world: World) -> None:
        self._world, self._empty, self._version = world, 0, 0

    def leave_empty(self, update: Decided) -> None:
        """Notes the verdict on an update of a client that is left out."""
        if update.verdict is Verdict.ACCEPTED:
            self._new_round()
            self._empty += 1
            self.close_if_full(update.at)

    def _new_round(self) -> None:
        version = self._world.run.coordinator.state.version
        if version != self._version:  # a full buffer makes a version by itself
            self._version, self._empty = version, 0

    def close_if_full(self, at: Seconds) -> None:
        """Makes a version of the other updates once all places are taken."""
        self._new_round()
        taken = self._world.run.coordinator.state.count + self._empty
        if self._empty and taken >= self._world.run.config.algorithm.buffer:
            self.close(at, "buffer")

    def close(self, at: Seconds, reason: StepReason) -> None:
        """Makes a version of the updates that have arrived, if there are any."""
        self._world.step(at, reason)
        self._empty = 0


def _warn_of_other_memories(records: Sequence[Row], folder: Path) -> None:
    """Warns if clients of a recorded run lost a part of their memories.

    The journal does not say which memories they kept, so a simulated client continues
    with its own.
    """
    forks = [r.version for r in records if isinstance(r, HistoryForked)]
    ids: dict[str, set[str]] = {}
    for record in records:
        if isinstance(record, Enrolled) and record.role == "trainer":
            ids.setdefault(record.name, set()).add(record.cid)
    again = sorted(name for name, known in ids.items() if len(known) > 1)
    because = [
        *(f"its history was restored at version {version}" for version in forks),
        *(f"{name} joined again under another id" for name in again),
    ]
    if because:
        _log.warning(
            "simulate.arrivals: %s cannot be repeated to the bit: %s, and what "
            "clients had not sent is not recorded",
            folder,
            "; ".join(because),
        )


def _judge_before(world: World, record: Leased | Declined) -> None:
    """Applies a verdict that was given before the task was computed.

    If the config has another update filter than the recorded run, that filter decides
    instead.
    """
    if isinstance(record, Declined) or record.planned is not None:
        world.run.coordinator.state.note(record)
        world.carry_out_now([Persist(record=record)])


def _fetch(world: World, participant: Participant) -> None:
    """Lets a client receive the newest model, even out of turn."""
    pull = participant.pull(world.nonce())
    state = world.run.coordinator.state
    reply = Reply(
        nonce=pull.nonce,
        patch=state.patch_to_train(pull.cid, pull.held),
        receipt=state.clients[pull.cid].receipt,
    )
    world.download(pull.cid, reply.patch)
    participant.receive(reply)
