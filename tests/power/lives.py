"""Processes that end in the middle of a write, one after the other on one disk.

Each life is a server and a client in a process of its own. At one of its calls it is
killed, or the call fails; the next life goes on from what it finds.
"""

import errno
import os
import random
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedclient.state.store import ClientStore
from fedcore import payloads
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import ClientEnrolled, UpdatePushed
from fedcore.errors import JournalError, StateError
from fedcore.params import content_digest
from fedcore.participant import ParticipantState, Sent
from fedcore.payloads import dense_payload
from fedcore.protocol import NOTHING_SETTLED, ModelName, Push
from fedrun.commit import GroupCommit
from fedrun.config import FederationConfig
from fedrun.journal import backup, restore
from fedrun.run import Run, open_run
from tests.power.noting import note, note_said
from tests.power.recorder import CHANGES, KILLED, SHORT, Kind, fail
from tests.protocol.parts import PLAIN, SPEC, algorithm_config

CIDS = ("ann", "ben")
UPDATES = 3  # of each life


def config_of(place: Path, model: Path, **journal: int) -> FederationConfig:
    """A run whose sums are exact."""
    return FederationConfig(
        algorithm=algorithm_config(
            "identity", "identity", PLAIN, deadline=False, synchronous=False
        ),
        server={"journal": place / "run"},
        model=model,
        journal=journal,
    )


class Life:
    """What a server and a client do between a start and an end."""

    def __init__(self, config: FederationConfig, number: int) -> None:
        self._number = number
        self._rng = np.random.default_rng(number)
        self.run: Run = open_run(config, float(number))
        self.group = GroupCommit(self.run)
        self._say(self.group.commit())

    def push(self, cid: str) -> None:
        """A client's update arrives and is decided."""
        state = self.run.coordinator.state
        if cid not in state.clients:
            event = ClientEnrolled(at=float(self._number), cid=cid, name=cid)
            self.group.feed(event)
        push = push_of(self.run.coordinator, cid, self._rng)
        at = float(self._number)
        self.group.feed(UpdatePushed(at=at, push=push))
        self._say(self.group.commit())

    def snapshot(self) -> None:
        """The state is written; payloads and segments become free."""
        self.group.snapshot(self.run.journal.store.last)

    def _say(self, actions: list[Action]) -> None:
        note_said(actions)


def push_of(coordinator: Coordinator, cid: str, rng: np.random.Generator) -> Push:
    """A client's next update."""
    state, proofs = coordinator.state, coordinator.proofs
    seq, version = state.clients[cid].seq, state.version
    update_D = rng.integers(-4, 5, SPEC.dim).astype(np.float32)
    payload = payloads.pack(dense_payload(update_D))
    return Push(
        cid=cid,
        epoch=state.epoch,
        seq=seq + 1,
        base=ModelName(state.epoch, version),
        task=proofs.task(state.epoch, cid, version, seq),
        payload=payload,
        digest=content_digest(payload),
        settled=NOTHING_SETTLED,
        samples=1,
    )


def keep_state(place: Path, number: int) -> None:
    """A client goes on from its state, and saves a few others."""
    store = ClientStore(place / "client")
    state = store.load() or ParticipantState("ann", "run", "e" * 16)
    for step in range(3):
        rng = np.random.default_rng((number, step))
        memory_D = rng.standard_normal(SPEC.dim).astype(np.float32)
        sent = Sent(state.seq, rng.bytes(50), in_model=True)
        history = (*state.history, sent)[-3:]
        state = replace(state, seq=state.seq + 1, memory_D=memory_D, history=history)
        store.save(state)
    if number % 7 == 0:
        store.forget()


def live(config: FederationConfig, number: int) -> None:
    """A whole life."""
    if number % 3 == 1:
        keep_state(config.server.journal.parent, number)
    life = Life(config, number)
    for update in range(UPDATES):
        life.push(CIDS[update % len(CIDS)])
        if update == 1:
            life.snapshot()
    if number % 3 != 1:
        keep_state(config.server.journal.parent, number)
    life.snapshot()
    if number % 2:
        life.run.journal.close()


def operate(config: FederationConfig) -> None:
    """An operator copies a run twice to one place, and brings the copy back."""
    run = config.server.journal
    copy, again = run.with_name("copy"), run.with_name("again")
    file = str(run / "journal.sqlite3")
    life = Life(config, 1)
    for _ in range(2):
        for update in range(4):
            life.push(CIDS[update % len(CIDS)])
        life.snapshot()
        note(what="backing up", folder=str(copy), source=file)
        note(what="backed up", folder=str(copy), rows=backup(run, copy))
    note(what="restoring", folder=str(again), source=str(copy))
    epoch = restore(copy, again, lambda: "a" * 16)
    note(what="restored", folder=str(again), rows=0, epoch=epoch)
    life.push(CIDS[0])


def in_a_process(life: Callable[[], None]) -> None:
    """Lives until it ends, fails as it may, or is killed; nothing is closed then."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        life()
    except (JournalError, StateError) as error:
        note(what="failed", why=str(error))
    except BaseException as error:  # noqa: BLE001 -- anything else is a mistake
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        note(what="wrong", why=f"{where}: {type(error).__name__}: {error}")
    os._exit(0)


def killed(config: FederationConfig, numbers: range) -> None:
    """Lives that are killed before a change: the first, then the second, and so on.

    Those between them are killed before a sync, when most is at stake; some before
    that of a new segment.
    """
    for number in numbers:

        def life(number: int = number) -> None:
            if number % 5 == 0:
                _kill_after(os.posix_fallocate)
            elif number % 2:
                fail(CHANGES, number // 2, KILLED)
            else:
                fail([Kind.SYNC], number // 4, KILLED)
            live(config, number)

        in_a_process(life)


def _kill_after(call: Callable[..., None]) -> None:
    """This process is killed before the first sync after a call."""

    def called(*args: Any) -> None:
        call(*args)
        fail([Kind.SYNC], 1, KILLED)

    setattr(os, call.__name__, called)


FAULTS = [
    (kind, error)
    for kind in CHANGES
    for error in (errno.ENOSPC, errno.EIO)
    if kind not in (Kind.UNLINK,) or error == errno.EIO
] + [(Kind.WRITE, SHORT)]


def failing(config: FederationConfig, rng: random.Random, count: int) -> None:
    """Lives in which a call fails, once or until the end, and others in which none."""
    for number in range(1, count + 1):

        def life(number: int = number) -> None:
            if number % 4:
                kind, error = rng.choice(FAULTS)
                fail([kind], rng.randint(1, 12), error, rng.choice((1, 1, 1000)))
            live(config, number)

        in_a_process(life)
        rng.random()
