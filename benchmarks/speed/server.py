"""Updates a second through a real server, every one of them on disk.

The same frames go in turn to ``fedserver run`` and to a bare grpc.aio server that drops
them. The difference is the work that a federation server adds: checks, digests, the
journal, the aggregation, and the answer. Segments are recycled early, as they are in a
long run; the table says how many had to be made nevertheless.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.measure import Figure, Scale, in_turn
from benchmarks.speed.processes import Helper, cpu_seconds, peak_resident_megabytes
from benchmarks.speed.report import RATIO, Report, Row
from fedcore.params import ParamSpec
from fedcore.typing import Seconds
from fedrun.files import save_model
from tools.local import LocalFederation

SINK, SERVER = "bare grpc.aio sink", "fedserver run"
ENDLESS = 10**9  # clients push on version 0 for ever
TOP_K = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.01}}
FED_BUFF = {"kind": "fed_buff", "buffer": 10, "staleness_limit": ENDLESS}
LATECOMER = {
    "kind": "latecomer",
    "staleness_limit": ENDLESS,
    "uplink": TOP_K,
    "downlink": {"kind": "top_k", "ratio": 0.05},
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """One way in which updates and versions travel."""

    title: str
    algorithm: dict[str, Any]
    kind: str
    updates: int  # in each round
    before: int  # updates until segments come back


TRAFFIC = (
    Traffic("FedBuff, dense up and down", FED_BUFF, "dense", 160, 900),
    Traffic(
        "FedBuff, top-k 1 % up", {**FED_BUFF, "uplink": TOP_K}, "sparse", 600, 1000
    ),
    Traffic("Latecomer: top-k 1 % up, 5 % down", LATECOMER, "sparse", 300, 600),
)


def run(scale: Scale) -> Report:
    """Loads server and sink in turn."""
    return Report(
        name="server",
        title=f"server: updates of {_dim(scale):,} values, fsync on, 4 clients at once",
        groups={traffic.title: _measure(traffic, scale) for traffic in TRAFFIC},
        remarks=(
            "ratio: seconds an update takes; CPU ms: of the server's process alone",
            "new: segment files that a round had to make, for want of old ones",
        ),
    )


def _dim(scale: Scale) -> int:
    return scale.of(1_000_000, 10_000)


def _measure(traffic: Traffic, scale: Scale) -> list[Row]:
    updates = scale.of(traffic.updates, 8)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        save_zeros(folder / "model.safetensors", _dim(scale))
        federation = stack.enter_context(
            LocalFederation(folder, config(traffic.algorithm, scale), app="")
        )
        server = federation.server("--no-evaluator").process
        assert server is not None
        sink = stack.enter_context(Helper("-m", "benchmarks.speed.sink"))
        model = str(folder / "model.safetensors")
        peers = {
            SINK: Peer(
                sink.process.pid,
                stack.enter_context(load(sink.greeting, model, traffic, "--bare")),
            ),
            SERVER: Peer(
                server.pid,
                stack.enter_context(load(federation.address, model, traffic)),
                lambda: len(list((federation.run / "segments").glob("*"))),
            ),
        }
        peers[SERVER].load.ask(scale.of(traffic.before, 8))
        works = {name: peer.work(updates) for name, peer in peers.items()}
        seconds = in_turn(works, scale.rounds)
        return [_row(name, peers[name], seconds, updates) for name in peers]


def _row(name: str, peer: "Peer", seconds: dict[str, Figure], updates: int) -> Row:
    frame_bytes = peer.load.greeting["bytes"]
    cpu = Figure(peer.cpu[1:])
    figures = {
        "updates/s": seconds[name].rate(updates),
        "MB/s": seconds[name].rate(updates * frame_bytes / 1e6),
        "CPU ms": cpu.times(1e3 / updates),
        "bytes": Figure([frame_bytes]),
        "peak MB": Figure([peak_resident_megabytes(peer.pid)]),
    }
    if name == SERVER:
        figures["new"] = Figure(peer.made[1:])
    return Row(name, {**figures, RATIO: seconds[name].over(seconds[SINK])}, SINK)


@dataclass
class Peer:
    """A process that takes updates, and the load on it."""

    pid: int
    load: Helper
    segments: Callable[[], int] = lambda: 0
    cpu: list[Seconds] = field(default_factory=list)
    made: list[float] = field(default_factory=list)  # new segments

    def work(self, updates: int) -> Callable[[], Seconds]:
        """One round of updates; notes what it cost."""

        def push() -> Seconds:
            cpu, segments = cpu_seconds(self.pid), self.segments()
            seconds = float(self.load.ask(updates))
            self.cpu.append(cpu_seconds(self.pid) - cpu)
            self.made.append(self.segments() - segments)
            return seconds

        return push


def load(address: str, model: str, traffic: Traffic, *options: str) -> Helper:
    """Clients that push to this address."""
    words = ("-m", "benchmarks.speed.load", address, model, "--kind", traffic.kind)
    return Helper(*words, *options)


def config(algorithm: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """A federation whose segments are recycled soon, and which never ends."""
    return {
        "model": "model.safetensors",
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "journal": {"keep_bytes": 0, "snapshot_records": scale.of(200, 5)},
        "algorithm": algorithm,
    }


def save_zeros(path: Path, dim: int) -> None:
    """A model of zeros."""
    weights = {"weight": np.zeros(dim, np.float32)}
    spec = ParamSpec.of(weights)
    save_model(path, spec, spec.flatten(weights))
