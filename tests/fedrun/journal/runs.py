"""Runs on disk, made without a server: a coordinator, and events in a row."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from fedcore import payloads
from fedcore.coordinator.events import ClientEnrolled, UpdatePushed
from fedcore.params import content_digest
from fedcore.payloads import dense_payload
from fedcore.protocol import NOTHING_SETTLED, ModelName, Push
from fedrun.commit import GroupCommit
from fedrun.config import FederationConfig
from fedrun.journal import Journal
from fedrun.run import Run, open_run
from tests.served import DIM, settings

LARGE = 20_000  # values: updates that lie in segments


class Written:
    """A run that is written event by event; ``close`` leaves it as a crash would."""

    def __init__(
        self, folder: Path, dim: int = DIM, *, durable: bool = True, **changes: Any
    ) -> None:
        self.dim = dim
        self.config: FederationConfig = settings(folder, dim, **changes)
        self.folder = self.config.server.journal
        self.run: Run = open_run(self.config, 1.0, durable=durable)
        self.group = GroupCommit(self.run)
        self.seq = {
            cid: row.seq for cid, row in self.run.coordinator.state.clients.items()
        }

    @property
    def digest(self) -> str:
        """Of the public model."""
        return self.run.coordinator.state.published.digest

    def push(self, cid: str = "ann", value: float = 1.0) -> None:
        """A client delivers an update, which is made durable."""
        state, proofs = self.run.coordinator.state, self.run.coordinator.proofs
        if cid not in state.clients:
            self.group.feed(ClientEnrolled(at=1.0, cid=cid, name=cid))
        self.seq[cid] = self.seq.get(cid, 0) + 1
        update_D = np.full(self.dim, value, np.float32)
        payload = payloads.pack(dense_payload(update_D))
        push = Push(
            cid=cid,
            epoch=state.epoch,
            seq=self.seq[cid],
            base=ModelName(state.epoch, state.version),
            payload=payload,
            digest=content_digest(payload),
            settled=NOTHING_SETTLED,
            samples=1,
            task=proofs.task(state.epoch, cid, state.version, state.clients[cid].seq),
        )
        self.group.feed(UpdatePushed(at=1.0, push=push))
        self.group.commit()

    def close(self) -> None:
        """No snapshot, no goodbye."""
        self.run.journal.close()


def written(folder: Path, updates: int = 3, **changes: Any) -> Written:
    """A run of so many updates of one client; a crash left it."""
    run = Written(folder, **changes)
    for number in range(updates):
        run.push(value=float(number + 1))
    run.close()
    return run


def change(run: Path, statement: str, *values: Any) -> None:
    """Writes into a journal behind its back."""
    database = sqlite3.connect(run / "journal.sqlite3")
    with database:
        database.execute(statement, values)
    database.close()


def records(run: Path) -> list[Any]:
    """All records of a run."""
    journal = Journal.open(run, read_only=True)
    try:
        return [entry.record for entry in journal.store.entries()]
    finally:
        journal.close()
