"""The speed of replaying a run: deciding again, and leaving a client out.

A hundred clients have sent the updates of the default recipe, which are small; every
fourth one makes a version. The floor is reading the journal's payloads: each of them,
with its checksum. A restart applies the recorded decisions and models instead.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.speed.measure import Scale, Work, in_turn
from benchmarks.speed.report import RATIO, Report, Row
from fedcore import payloads
from fedcore.coordinator.events import ClientEnrolled, UpdatePushed
from fedcore.params import ParamSpec, content_digest
from fedcore.protocol import NOTHING_SETTLED, ModelName, Push
from fedcore.rng import Key
from fedcore.typing import Bytes
from fedrun.commit import GroupCommit
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import Journal, recover
from fedrun.journal.replay import Replay
from fedrun.journal.restored import Restored
from fedrun.run import Run, start_run

READ = "read the payloads"
CLIENTS, MESSAGES = 100, 16  # different messages, which are sent again and again
LEFT_OUT = "client-17"
LATE = 3  # versions that updates are late at most


def run(scale: Scale) -> Report:
    """Writes a run, and reads it in all ways."""
    count, dim = scale.of(10_000, 200), scale.of(1_000_000, 10_000)
    with tempfile.TemporaryDirectory() as scratch:
        config = _config(Path(scratch) / "run")
        nbytes = write(config, dim, count)
        seconds = in_turn(_ways(config), scale.rounds)
    rows = [
        Row(
            name,
            {
                "s": seconds[name],
                "updates/s": seconds[name].rate(count),
                RATIO: seconds[name].over(seconds[READ]),
            },
            READ,
        )
        for name in seconds
    ]
    return Report(
        name="replay",
        title=f"replay: {count:,} updates of {dim:,} values, {nbytes / 1e6:.0f} MB",
        groups={"journal": rows},
    )


def _config(folder: Path) -> FederationConfig:
    return parse_config(
        {
            "server": {"journal": str(folder)},
            "algorithm": {"kind": "latecomer"},
            "journal": {"snapshot_records": 10**9},
        }
    )


def _ways(config: FederationConfig) -> dict[str, Work]:
    folder = config.server.journal

    @contextmanager
    def opened() -> Iterator[Journal]:
        with closing(Journal.open(folder, read_only=True)) as journal:
            yield journal

    def read() -> None:
        with opened() as journal:
            for _ in journal.entries():
                pass

    def restart() -> None:
        with opened() as journal:
            recover(journal)

    def replay() -> None:
        with opened() as journal:
            for _ in Replay(journal, config, whole_records=False).run():
                pass

    def without() -> None:
        with opened() as journal:
            left = Restored(journal, [LEFT_OUT])
            for _, record in journal.entries():
                left.take(record)

    return {
        READ: read,
        "restart without a snapshot": restart,
        "replay": replay,
        "replay without a client": without,
    }


def write(config: FederationConfig, dim: int, count: int) -> int:
    """Writes a run of so many updates; returns the bytes of their payloads."""
    spec = ParamSpec.of({"w": np.zeros(dim, np.float32)})
    begun = start_run(config, spec, np.zeros(dim, np.float32), 0.0, durable=False)
    messages = _messages(begun, dim)
    group = GroupCommit(begun)
    for number in range(CLIENTS):
        name = f"client-{number}"
        group.feed(
            ClientEnrolled(at=0.0, cid=name, name=name, index=number, count=CLIENTS)
        )
    for number in range(count):
        push = _push(begun, number, messages[number % MESSAGES])
        group.feed(UpdatePushed(at=float(number), push=push))
        group.commit()
    begun.journal.close()
    return sum(len(messages[number % MESSAGES]) for number in range(count))


def _messages(begun: Run, dim: int) -> list[Bytes]:
    """Updates as the uplink of the run encodes them."""
    uplink = begun.coordinator.algorithm.uplink
    key = Key.root(0).fold_in("replay")
    made: list[Bytes] = []
    for number in range(MESSAGES):
        update_D = 1e-3 * key.fold_in(number).generator().standard_normal(
            dim, np.float32
        )
        payload, _ = uplink.encode(update_D, uplink.init(dim), key.fold_in(number))
        made.append(payloads.pack(payload))
    return made


def _push(begun: Run, number: int, message: Bytes) -> Push:
    """The next message of a client, up to some versions late."""
    state, proofs = begun.coordinator.state, begun.coordinator.proofs
    late = number % (LATE + 1)
    cid, seq = f"client-{number % CLIENTS}", 1 + number // CLIENTS
    base = max(0, state.version - late)
    return Push(
        cid=cid,
        epoch=state.epoch,
        seq=seq,
        base=ModelName(state.epoch, base),
        task=proofs.task(state.epoch, cid, base, seq - 1),
        payload=message,
        digest=content_digest(message),
        settled=NOTHING_SETTLED,
        samples=20 + number % 7,
        steps=20,
    )
