"""What is recorded: federations on real journals and client states.

``python -m tests.power.drive STORY ROOT SEED [MISTAKE]`` runs in a process whose file
operations are recorded. It notes in the log what was promised: rows of the journal
before and after they are made durable, what the server said, and states of clients
before and after they are saved.
"""

import argparse
import os
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fedclient.state.store import ClientStore
from fedcore.coordinator.actions import Action
from fedrun.config import FederationConfig
from fedrun.durable import sync_folder
from fedrun.files import save_model
from fedrun.journal import rows as rows_module
from fedrun.journal import segments as segments_module
from fedrun.run import start_run
from tests.power.damage import damaged
from tests.power.lives import config_of, failing, killed, operate
from tests.power.mistakes import MISTAKES
from tests.power.noting import note_said, promising
from tests.power.sites import note_syncs
from tests.protocol import client as client_module
from tests.protocol import server as server_module
from tests.protocol import world as world_module
from tests.protocol.disasters import counts, pulls
from tests.protocol.parts import INITIAL, SPEC
from tests.protocol.server import CheckedServer
from tests.protocol.world import CLIENTS, Setting, Step, World

PLACE = "place"  # below the root: the folder of the whole federation
CHECKPOINT_PAGES = 12
COMMON = {
    "pull": 10, "begin": 12, "finish": 14, "push": 14, "deliver": 30, "answer": 30,
    "commit": 4, "duplicate": 3, "lose": 2, "timer": 2, "flush": 1, "leave": 1,
}  # fmt: skip
RESTARTS = {"kill_server": 2, "start_server": 8, "kill_client": 2}


@contextmanager
def small(root: Path, large: int, segment_bytes: int, **journal: int) -> Iterator[None]:
    """Segments, checkpoints and budgets so small that all of them are in use."""
    model = root.with_suffix(".safetensors")  # the user's own: outside of the disk
    save_model(model, SPEC, INITIAL)

    def config(**settings: Any) -> FederationConfig:
        return FederationConfig(**{**settings, "journal": journal, "model": model})

    init = segments_module.Segments.__init__

    def small_segments(self: Any, folder: Path, **options: Any) -> None:
        init(self, folder, segment_bytes, **options)

    connect = sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        database = connect(*args, **options)
        database.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        return database

    with (
        patch.object(rows_module, "LARGE", large),
        patch.object(segments_module.Segments, "__init__", small_segments),
        patch.object(sqlite3, "connect", connected),
        patch.object(world_module, "FederationConfig", config),
    ):
        yield


@contextmanager
def durable_world(root: Path) -> Iterator[None]:
    """The model check on disks that are synced, in a folder of our own."""

    def durably(*args: Any, **options: Any) -> Any:
        return start_run(*args, **{**options, "durable": True})

    def saved(folder: Path, **_: Any) -> ClientStore:
        return ClientStore(folder)

    release = CheckedServer._release

    def noting_release(server: CheckedServer, actions: list[Action]) -> None:
        note_said(actions)
        release(server, actions)

    place = root / PLACE
    with (
        patch.object(CheckedServer, "_release", noting_release),
        patch.object(server_module, "start_run", durably),
        patch.object(client_module, "ClientStore", saved),
        patch.object(tempfile, "mkdtemp", lambda **_: str(place)),
    ):
        yield


# -------------------------------------------------------------------- stories


def _schedule(rng: random.Random, weights: dict[str, int], length: int) -> list[Step]:
    """Updates that are delivered, and steps at random between them."""
    names = list(weights)
    schedule: list[Step] = []
    while len(schedule) < length:
        who = rng.randrange(CLIENTS)
        schedule += rng.choice((counts(who, 2 * rng.getrandbits(8)), pulls(who)))
        drawn = rng.choices(names, list(weights.values()), k=rng.randint(0, 4))
        schedule += [(name, rng.getrandbits(16), rng.getrandbits(16)) for name in drawn]
    return schedule


def _make_place(root: Path) -> None:
    (root / PLACE).mkdir()
    for folder in (root, root / PLACE):
        sync_folder(folder)


def _world(root: Path, setting: Setting, schedule: list[Step]) -> None:
    _make_place(root)
    with durable_world(root):
        world = World(setting).__enter__()  # its disks stay
        world.execute(schedule)


def rows(root: Path, rng: random.Random) -> None:
    """Payloads in rows; server and clients are restarted."""
    setting = Setting(downlink="identity", real_disks=True)
    with small(root, 1 << 20, 4096):
        weights = COMMON | RESTARTS | {"snapshot": 2}
        _world(root, setting, _schedule(rng, weights, 120))


def segments(root: Path, rng: random.Random) -> None:
    """Payloads in segments; the server is restarted."""
    setting = Setting(uplink="identity")
    with small(root, 64, 1024):
        weights = COMMON | RESTARTS | {"snapshot": 3}
        _world(root, setting, _schedule(rng, weights, 200))


def retention(root: Path, rng: random.Random) -> None:
    """Payloads are dropped, and their segments used again."""
    setting = Setting(uplink="identity", downlink="identity")
    with small(root, 64, 1024, keep_bytes=600):
        schedule = _schedule(rng, COMMON, 260)
        for at in range(250, 10, -20):
            schedule.insert(at, ("snapshot", 0, 0))
        _world(root, setting, schedule)


def kills(root: Path, rng: random.Random) -> None:
    """Processes are killed at each of their changes, one after the other."""
    with small(root, 64, 512):
        killed(_lives(root), range(3, 120))


def faults(root: Path, rng: random.Random) -> None:
    """Calls fail: the disk is full, or broken, or takes half of a write."""
    with small(root, 64, 512):
        failing(_lives(root), rng, 60)


def copies(root: Path, rng: random.Random) -> None:
    """A run is backed up, again into the same place, and restored."""
    with small(root, 64, 512):
        operate(_lives(root, keep_bytes=300))


def damage(root: Path, rng: random.Random) -> None:
    """A run is damaged, cut or repaired, and served again."""
    with small(root, 64, 512):
        damaged(_lives(root, keep_bytes=1 << 20), rng)


def _lives(root: Path, keep_bytes: int = 1500) -> FederationConfig:
    _make_place(root)
    return config_of(
        root / PLACE, root.with_suffix(".safetensors"), keep_bytes=keep_bytes
    )


STORIES: dict[str, Callable[[Path, random.Random], None]] = {
    story.__name__: story
    for story in (rows, segments, retention, kills, faults, copies, damage)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("root", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mistake", choices=MISTAKES)
    given = parser.parse_args()
    with ExitStack() as stack:
        stack.enter_context(note_syncs())
        stack.enter_context(promising())
        if given.mistake:
            MISTAKES[given.mistake](stack)
        STORIES[given.story](given.root, random.Random(given.seed))
        sys.stdout.flush()
        os._exit(0)  # as if killed: nothing is closed


if __name__ == "__main__":
    main()
