"""Real processes under fire, and the books afterwards.

``python -m tests.integration.kill --kills 300`` is the long form; short ones of all are
among the tests. Every disaster ends with an audit: what clients were told, what the
journal holds and what is in the model is the same.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.basis import stamp
from benchmarks.speed.measure import machine
from tests.integration.conftest import APP
from tools.books import Books, audit
from tools.local import Child, LocalFederation, free_port

CLIENTS = 8
ENDING = 10  # versions after the last disaster
MOMENT = 3.0  # seconds for which a moment is waited for, before it is any other
AT_WORK = 20.0  # seconds for which clients may take to come back after a kill


class MountError(Exception):
    """A disk of our own needs leave to mount one."""


@dataclass
class Fire:
    """A federation that something is done to."""

    real: LocalFederation
    clients: list[Child]
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    gone: list[Path] = field(default_factory=list)  # copies of states thrown away

    @property
    def server(self) -> Child:
        return self.real.children["server"]

    def start(self, *options: str) -> None:
        """Starts the server again."""
        self.real.server("--no-evaluator", *options)

    def goes_on(self, versions: int = 1, seconds: float = 120.0) -> None:
        """Waits for more versions."""
        before = steps(self.real)
        self.real.wait_until(
            lambda: steps(self.real) >= before + versions, "it goes on", seconds
        )

    def ends(self) -> Books:
        """The run comes to its end, and everybody with it; the books of all."""
        self.goes_on()
        self.server.kill()
        self.start("--set", f"stop.versions={steps(self.real) + ENDING}")
        for child in [self.server, *self.clients]:
            assert child.wait(150.0) == 0, f"{child.name}:\n{child.tail()}"
        return audit(self.real.run, map(self.state, self.clients), self.gone)

    def state(self, client: Child) -> Path:
        """A client's state directory."""
        return self.real.folder / f"state-{client.name}"


@contextmanager
def federation(
    folder: Path, seed: int, clients: int = CLIENTS, **changes: Any
) -> Iterator[Fire]:
    """A loaded server and its clients, at work."""
    config: dict[str, Any] = {
        "app": f"{APP}:workload",
        "server": {"listen": f"127.0.0.1:{free_port()}", "journal": "run"},
        "journal": {"snapshot_records": 20},
        "timeouts": {"linger": 60.0},
        "algorithm": {
            "kind": "latecomer",
            "buffer": 4,
            "client": {"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 16},
            "uplink": {
                "kind": "error_feedback",
                "inner": {"kind": "top_k", "ratio": 0.05},
            },
            "downlink": {"kind": "top_k", "ratio": 0.1},
        },
    }
    for name, section in changes.items():
        config[name] = {**config.get(name, {}), **section}
    with LocalFederation(folder, config, app=f"{APP}:workload") as real:
        real.server("--no-evaluator")
        started = [real.client(i, clients) for i in range(clients)]
        # The server waits at the end for everybody whom it knows: for these.
        real.wait_until(lambda: members(real) == clients, "everybody has joined", 120)
        real.wait_until(lambda: steps(real) > 2, "the federation is at work", 120)
        yield Fire(real, started, random.Random(seed))


# --------------------------------------------------------------------------- kills


def kill_again_and_again(
    folder: Path,
    kills: int,
    seed: int,
    clients: int = CLIENTS,
    minutes: float = 600.0,
) -> tuple[Books, Fire]:
    """Kills the server at chosen moments, and now and then a client."""
    deadline = time.monotonic() + 60 * minutes
    with federation(folder, seed, clients) as fire:
        while fire.done.total() < kills and time.monotonic() < deadline:
            moment = fire.rng.choice([_under_load, _in_a_snapshot, _after_an_answer])
            fire.done[moment(fire)] += 1
            if fire.rng.random() < 0.5 and fire.done.total() < kills:
                fire.done[_in_its_start(fire)] += 1
            fire.start()
            if fire.rng.random() < 0.3:
                which = fire.rng.randrange(len(fire.clients))
                fire.clients[which].kill()
                fire.clients[which].start()
            _soon(_decides(fire), AT_WORK)
            say(f"\r{dict(fire.done)}, {steps(fire.real)} versions ")
        say("\n")
        return fire.ends(), fire


def _under_load(fire: Fire) -> str:
    time.sleep(fire.rng.uniform(0.02, 0.4))
    fire.server.kill()
    return "under load"


def _in_a_snapshot(fire: Fire) -> str:
    """While the file of a snapshot is being written, or just after."""
    folder = fire.real.run / "snapshots"
    seen = set(os.listdir(folder)) if folder.exists() else set()

    def is_written() -> bool:
        return folder.exists() and bool(set(os.listdir(folder)) - seen)

    hit = _soon(is_written)
    fire.server.kill()
    return "in a snapshot" if hit else "under load"


def _after_an_answer(fire: Fire) -> str:
    """Within milliseconds after a client was told a verdict, and may have saved it."""
    logs = [fire.state(client) / "state.sqlite3-wal" for client in fire.clients]
    hit = _soon(_decides(fire))
    before = [_changed(log) for log in logs]
    if fire.rng.random() < 0.5:  # until a client has saved it, or about to
        hit = _soon(lambda: [_changed(log) for log in logs] != before) and hit
    else:
        time.sleep(fire.rng.uniform(0, 0.004))
    fire.server.kill()
    return "after an answer" if hit else "under load"


def _decides(fire: Fire) -> Callable[[], bool]:
    """Whether an update has been decided since now."""
    before = len(fire.server.lines())

    def is_decided() -> bool:
        lines = fire.server.lines()[before:]
        return any(line.get("event") == "decided" for line in lines)

    return is_decided


def _in_its_start(fire: Fire) -> str:
    """After it has taken the run's lock, and before it has said that it listens."""
    said = len(fire.server.lines())
    server = fire.real.server("--no-evaluator", wait=False)
    assert server.process is not None
    mine, lock = str(server.process.pid), fire.real.run / "lock"

    def has_begun() -> bool:
        return lock.read_text() == mine or not server.is_running

    assert _soon(has_begun, 60.0), server.tail()
    time.sleep(fire.rng.choice([0, fire.rng.uniform(0, 0.02), fire.rng.uniform(0, 1)]))
    server.kill()
    lines = server.lines()[said:]
    listened = any(line.get("event") == "listening" for line in lines)
    return "after its start" if listened else "in its start"


def _soon(condition: Callable[[], bool], seconds: float = MOMENT) -> bool:
    """Looks a thousand times a second; says whether it came."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _changed(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


# -------------------------------------------------------------------------- pauses


def pause(folder: Path, seconds: float, seed: int, clients: int = CLIENTS) -> Books:
    """SIGSTOP for the server and for a client, longer than either is waited for."""
    impatient = {"lost": seconds / 4, "heartbeat": seconds / 10}
    with federation(folder, seed, clients, timeouts=impatient) as fire:
        fire.server.pause(seconds)
        fire.goes_on(2)
        fire.rng.choice(fire.clients).pause(seconds)
        fire.goes_on(2)
        return fire.ends()


# --------------------------------------------------------------------------- disks


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of so many bytes.

    Raises:
        MountError: this user may not mount one.
    """
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, check=False)
    if done.returncode:
        raise MountError(f"cannot mount: {done.stderr.decode().strip()}")


def full_disk(folder: Path, seconds: float, seed: int, clients: int = CLIENTS) -> Books:
    """The server's disk is full for a while: it stays, and then it goes on."""
    with (
        small_disk(folder / "disk", "16m") as disk,
        federation(folder, seed, clients, server=_on_a_disk()) as fire,
    ):
        for _ in range(2):
            ballast = disk / "ballast"
            _fill(ballast)
            time.sleep(seconds)
            assert fire.server.is_running, fire.server.tail()
            ballast.unlink()
            fire.goes_on(2)
        _fill(disk / "ballast")
        time.sleep(min(1.0, seconds))
        fire.server.kill()  # and killed while it is full
        (disk / "ballast").unlink()
        fire.start()
        return fire.ends()


def read_only_disk(folder: Path, seed: int, clients: int = CLIENTS) -> Books:
    """A server that finds its disk read-only says so; clients wait for a better day."""
    with (
        small_disk(folder / "disk", "16m") as disk,
        federation(folder, seed, clients, server=_on_a_disk()) as fire,
    ):
        fire.server.kill()
        _mount("-o", "remount,ro", str(disk))
        server = fire.real.server("--no-evaluator", wait=False)
        assert server.wait() == os.EX_IOERR, server.tail()
        assert "read-only" in server.tail().lower(), server.tail()
        _mount("-o", "remount,rw", str(disk))
        fire.start()
        return fire.ends()


def _on_a_disk() -> dict[str, str]:
    return {"listen": f"127.0.0.1:{free_port()}", "journal": "disk/run"}


def _fill(ballast: Path) -> None:
    """Until nothing more fits in."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


# -------------------------------------------------------------------------- states


def lost_states(folder: Path, seed: int, clients: int = CLIENTS) -> Books:
    """States of clients are deleted, rolled back, and copied to a second machine."""
    with federation(folder, seed, clients, timeouts={"linger": 20.0}) as fire:
        _delete(fire, fire.clients[0])
        fire.goes_on()
        _roll_back(fire, fire.clients[1])
        fire.goes_on()
        _copy(fire, fire.clients[2])
        fire.goes_on(2)
        return fire.ends()


def _delete(fire: Fire, client: Child) -> None:
    """It comes back as somebody else."""
    client.kill()
    fire.gone.append(_kept(fire, client, "deleted"))
    shutil.rmtree(fire.state(client))
    place = fire.clients.index(client)
    count = len(fire.clients)
    fire.clients[place] = fire.real.client(place, count, name=f"{client.name}-anew")


def _roll_back(fire: Fire, client: Child) -> None:
    """Its disk is what it was some accepted messages ago."""
    client.kill()
    old = _kept(fire, client, "old")
    client.start()
    known = _accepted(fire, client)
    fire.real.wait_until(lambda: _accepted(fire, client) > known + 1, "it works", 120)
    client.kill()
    fire.gone.append(_kept(fire, client, "newer"))
    shutil.rmtree(fire.state(client))
    shutil.copytree(old, fire.state(client))
    client.start()


def _copy(fire: Fire, client: Child) -> None:
    """Two processes have one state, and one of them gives way."""
    client.kill()
    name, place = f"{client.name}-copy", fire.clients.index(client)
    copied = fire.real.folder / f"state-{name}"
    shutil.copytree(fire.state(client), copied)
    client.start()
    fire.goes_on()
    second = fire.real.client(place, len(fire.clients), name=name)
    fire.real.wait_until(
        lambda: not (client.is_running and second.is_running), "one gives way", 120
    )
    stays, gone = (second, client) if second.is_running else (client, second)
    fire.clients[place] = stays
    fire.gone.append(_kept(fire, gone, "given-way"))


def _kept(fire: Fire, client: Child, why: str) -> Path:
    """A copy of a state; the client does not run."""
    return Path(
        shutil.copytree(fire.state(client), fire.real.folder / f"{client.name}-{why}")
    )


def _accepted(fire: Fire, client: Child) -> int:
    """Of how many of its messages the journal says that they count."""
    return sum(
        line.get("event") == "decided"
        and line.get("client") == client.name
        and line.get("verdict") == "accepted"
        for line in fire.real.events()
    )


# -------------------------------------------------------------------------- figures


def steps(real: LocalFederation) -> int:
    """Published versions."""
    return sum(line.get("event") == "stepped" for line in real.events())


def members(real: LocalFederation) -> int:
    """Clients that have joined the run."""
    return len({e["cid"] for e in real.events() if e.get("event") == "enrolled"})


def say(text: str) -> None:
    """Progress, where somebody looks."""
    if sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


def save(path: Path, books: dict[str, Any], kills: dict[str, int]) -> None:
    """Writes these books into a file; those of other disasters in it stay."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    told = {
        "kills": kills or old.get("kills", {}),
        "books": {**old.get("books", {}), **books},
    }
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--minutes", type=float, default=600.0, help="for the kills")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a pause")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="some of the disasters")
    parser.add_argument("--save", type=Path, help="write the books into a file")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    common = given.seed, given.clients

    def killed(folder: Path) -> Books:
        books, fire = kill_again_and_again(
            folder, given.kills, given.seed, given.clients, given.minutes
        )
        counts.update(fire.done)
        counts["of a client"] = sum(client.kills for client in fire.clients)
        return books

    disasters: dict[str, Callable[[Path], Books]] = {
        "kills": killed,
        "pauses": lambda folder: pause(folder, given.seconds, *common),
        "full disk": lambda folder: full_disk(folder, given.seconds, *common),
        "read-only disk": lambda folder: read_only_disk(folder, *common),
        "lost states": lambda folder: lost_states(folder, *common),
    }
    saved: dict[str, Any] = {}
    for name, disaster in disasters.items():
        if given.only and name not in given.only:
            continue
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                books = disaster(Path(folder) / "fed")
        except MountError as error:
            print(f"{name}: not tried, {error}")
            continue
        print(f"{name}, {time.monotonic() - began:.0f} s")
        for what, count in counts.items() if name == "kills" else ():
            print(f"{count:6} SIGKILLs {what}")
        for what, figure, right in books.rows():
            print(f"{'ok' if right else 'WRONG':>6} {what}: {figure}")
        seconds = round(time.monotonic() - began)
        told = {"seconds": seconds, **vars(books), "balance": books.balance}
        saved[name] = told | {"machine": machine()} | stamp()
        if given.save:
            save(given.save, saved, dict(counts))
    return 0 if all(books["balance"] for books in saved.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
