"""The order of arrival that a real run recorded, in the simulator.

The journal says who delivered what, in which order, on which base version. A task's
result depends on nothing else, so the same app and config give the same model bit
for bit; with another config it is the answer to "what if".
"""

from pathlib import Path

from fedcore.coordinator.events import StopRequested
from fedcore.coordinator.records import Closed, Decided, Enrolled, Stepped
from fedcore.errors import ConfigError
from fedcore.participant import Participant
from fedcore.protocol import Reply
from fedcore.typing import Seconds
from fedcore.workload import Client
from fedrun.config import SimulateConfig
from fedrun.journal import Journal
from fedsim.exact import ExactClients
from fedsim.world import World


def recorded_clients(config: SimulateConfig, folder: Path) -> list[Client]:
    """The trainers of a recorded run, by name and place."""
    journal = Journal.open(folder, read_only=True)
    enrolled = [
        entry.record
        for entry in journal.store.find(Enrolled.__name__)
        if isinstance(entry.record, Enrolled) and entry.record.role == "trainer"
    ]
    journal.close()
    if not enrolled:
        raise ConfigError(f"simulate.arrivals: {folder} has no clients")
    names = {record.name: record for record in enrolled}
    return [
        Client(record.name, record.index, record.count, config.args)
        for record in names.values()
    ]


def recorded_start(folder: Path) -> Seconds:
    """When a recorded run began."""
    journal = Journal.open(folder, read_only=True)
    try:
        return journal.configurations()[0][1].at
    finally:
        journal.close()


def replay_arrivals(world: World, clients: ExactClients, folder: Path) -> None:
    """Feeds the recorded updates, trained anew, in the recorded order.

    At a record's time it comes first, before whatever else is due: a real server may
    have decided on an update just before its own timer fired.
    """
    journal = Journal.open(folder, read_only=True)
    records = [entry.record for entry in journal.entries()]
    journal.close()
    names = {r.cid: r.name for r in records if isinstance(r, Enrolled)}
    participants = {
        client.name: participant
        for client, participant in zip(
            clients.clients, clients.participants, strict=True
        )
    }
    updates = [r for r in records if isinstance(r, Decided)]
    coming: dict[str, list[Decided]] = {}
    for update in updates:
        coming.setdefault(names[update.cid], []).append(update)
    started: set[str] = set()

    def start_those_due() -> None:
        """Whoever trains next on this version has pulled it by now."""
        version = world.run.coordinator.state.version
        for name, queue in coming.items():
            if queue and name not in started and queue[0].base == version:
                _fetch(world, participants[name])
                started.add(name)

    start_those_due()
    for record in records:
        world.clock.now = max(world.clock.now, record.at)
        if isinstance(record, Decided):
            name = names[record.cid]
            if name not in started:
                raise ConfigError(
                    f"simulate.arrivals: {name} trained on version {record.base}, "
                    "which this federation never publishes; the buffer must be the same"
                )
            clients.deliver(name)
            coming[name].pop(0)
            started.discard(name)
        elif isinstance(record, Stepped) and record.reason == "deadline":
            world.step(record.at, "deadline")
        elif isinstance(record, Closed) and world.ended is None:
            world.feed(StopRequested(at=record.at, reason=record.reason))
        start_those_due()
        world.catch_up()


def _fetch(world: World, participant: Participant) -> None:
    """A client takes over the present model, whoever's turn it would be."""
    pull = participant.pull(world.nonce())
    state = world.run.coordinator.state
    reply = Reply(
        nonce=pull.nonce,
        patch=state.published.patch(pull.held),
        receipt=state.clients[pull.cid].receipt,
    )
    world.download(pull.cid, reply.patch)
    participant.receive(reply)
