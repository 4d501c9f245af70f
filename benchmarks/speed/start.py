"""The start-up time of processes, and their memory while they are idle.

The floor of an import is Python itself; that of a server is the bare grpc.aio sink,
until it listens; that of a client is a program that imports NumPy and grpc and makes
one call. Everything was started once before, so that files are in the page cache and
modules are compiled.
"""

import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedwire.connect import SERVICE

from benchmarks.speed.measure import Figure, Scale, in_turn
from benchmarks.speed.processes import (
    ROOT,
    Helper,
    Started,
    resident_megabytes,
    wait_until_idle,
)
from benchmarks.speed.report import RATIO, Report, Row
from benchmarks.speed.server import LATECOMER, config, save_zeros
from fedcore.typing import Seconds
from tools.local import LocalFederation

PYTHON = "python -c pass"
IMPORTS = {
    PYTHON: ("-c", "pass"),
    "import numpy, grpc": ("-c", "import numpy, grpc"),
    "import fedcore.algorithm": ("-c", "import fedcore.algorithm"),
    "import fedserver.server": ("-c", "import fedserver.server"),
    "import fedclient.work.worker": ("-c", "import fedclient.work.worker"),
    "fedserver --help": ("-m", "fedserver", "--help"),
    "fedclient --help": ("-m", "fedclient", "--help"),
    "fedsim --help": ("-m", "fedsim", "--help"),
}
# One empty push is taken by the sink, and answered.
ONE_CALL = f"""
import sys
channel = grpc.insecure_channel(sys.argv[1])
channel.stream_unary("/{SERVICE}/Push")(iter([b""]))
print("joined", flush=True)
sys.stdin.read()
"""
TEMPLATES = ROOT / "fedsim" / "templates"
FOR_EVER = "1000000"  # seconds that a task takes at least


def run(scale: Scale) -> Report:
    """Starts everything in turn."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        servers = _compare(_servers(Path(scratch) / "servers", scale), scale)
        clients = [
            _compare(programs, scale)
            for programs in _clients(Path(scratch) / "clients", stack, scale)
        ]
    return Report(
        name="start",
        title="start: from nothing to ready, and memory while idle",
        groups={
            "imports, from start to end": _imports(scale),
            "server, from start to listening": _times(servers),
            "client, from start to joined": [
                row for found in clients for row in _times(found)
            ],
            "server, memory when idle": _memory(servers),
            "client, memory when idle": [
                row for found in clients for row in _memory(found)
            ],
        },
    )


# ------------------------------------------------------------------------- imports


def _imports(scale: Scale) -> list[Row]:
    works = {name: _to_its_end(words) for name, words in IMPORTS.items()}
    seconds = in_turn(works, scale.rounds)
    return [
        Row(
            name,
            {
                "ms": seconds[name].times(1e3),
                RATIO: seconds[name].over(seconds[PYTHON]),
            },
            PYTHON,
        )
        for name in works
    ]


def _to_its_end(words: tuple[str, ...]) -> Callable[[], object]:
    command = [sys.executable, *words]
    return lambda: subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )


# ------------------------------------------------------------- processes that stay


@dataclass
class Program:
    """What is started again and again, and what it held when it was idle."""

    start: Callable[[], Started]
    megabytes: list[float] = field(default_factory=list)

    def work(self) -> Seconds:
        """Starts it once; notes its memory."""
        with self.start() as started:
            wait_until_idle(started.process.pid)
            self.megabytes.append(resident_megabytes(started.process.pid))
            return started.seconds


Programs = dict[str, Program]


@dataclass(frozen=True, slots=True)
class _Found:
    floor: str
    seconds: dict[str, Figure]
    megabytes: dict[str, Figure]


def _compare(programs: Programs, scale: Scale) -> _Found:
    """The first program is what all ratios are to."""
    works = {name: program.work for name, program in programs.items()}
    seconds = in_turn(works, scale.rounds)
    megabytes = {name: Figure(p.megabytes[1:]) for name, p in programs.items()}
    return _Found(next(iter(programs)), seconds, megabytes)


def _times(found: _Found) -> list[Row]:
    floor = found.seconds[found.floor]
    return [
        Row(name, {"ms": figure.times(1e3), RATIO: figure.over(floor)}, found.floor)
        for name, figure in found.seconds.items()
    ]


def _memory(found: _Found) -> list[Row]:
    floor = found.megabytes[found.floor]
    return [
        Row(name, {"MB": figure, RATIO: figure.over(floor)}, found.floor)
        for name, figure in found.megabytes.items()
    ]


def _servers(folder: Path, scale: Scale) -> Programs:
    large = scale.of(1_000_000, 10_000)
    folders = (folder / str(number) for number in itertools.count())

    def anew(dim: int) -> Callable[[], Started]:
        return lambda: _server(next(folders), dim, scale)

    again = folder / "again"
    return {
        "bare grpc.aio sink": Program(
            lambda: Started(["-m", "benchmarks.speed.sink"], "127.0.0.1", ROOT)
        ),
        "fedserver run, 650 values": Program(anew(650)),
        f"fedserver run, {large:,} values": Program(anew(large)),
        f"the same after a SIGKILL, {large:,} values": Program(
            lambda: _server(again, large, scale)
        ),
    }


def _server(folder: Path, dim: int, scale: Scale) -> Started:
    """A server in a folder; the first time it begins a run, then it goes on."""
    federation = LocalFederation(folder, config(LATECOMER, scale), app="")
    if not federation.path.exists():
        with federation:
            save_zeros(folder / "model.safetensors", dim)
    words = ["-m", "fedserver", "run", str(federation.path), "--log", "json"]
    return Started(words, '"listening"', folder)


def _clients(folder: Path, stack: ExitStack, scale: Scale) -> list[Programs]:
    """Without torch, and, unless it is to be quick, with it."""
    sink = stack.enter_context(Helper("-m", "benchmarks.speed.sink"))
    address = str(sink.greeting)

    def pair(modules: str, template: str) -> Programs:
        code = f"import {modules}\n{ONE_CALL}"
        federation = stack.enter_context(_federation(folder, template))
        federation.server("--no-evaluator")
        return {
            f"import {modules}; one call": Program(
                lambda: Started(["-c", code, address], "joined", ROOT)
            ),
            f"fedclient join, digits in {template}": Program(_joining(federation)),
        }

    plain = pair("numpy, grpc", "numpy")
    return [plain] if scale.quick else [plain, pair("torch, grpc", "torch")]


def _federation(folder: Path, template: str) -> LocalFederation:
    """One that serves the digits example."""
    (folder / template).mkdir(parents=True)
    shutil.copy(TEMPLATES / template / "my_app.py", folder / template)
    settings: dict[str, Any] = {
        "app": "my_app:workload",
        "model": "model.safetensors",
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "algorithm": LATECOMER,
    }
    return LocalFederation(folder / template, settings, "my_app:workload")


def _joining(federation: LocalFederation) -> Callable[[], Started]:
    """A client that does one task, and then rests."""
    names = (f"client-{number}" for number in itertools.count())

    def start() -> Started:
        name = next(names)
        words = ["-m", "fedclient", "join", federation.address]
        words += ["--app", federation.app, "--state", name, "--name", name]
        words += ["--pace", FOR_EVER]
        return Started(words, "joined", federation.folder)

    return start
