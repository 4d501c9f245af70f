"""The cost of counting bytes for a server: with it and without, in turn.

The smaller an update, the larger is the share of messages in its time, so the updates
are small.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.speed.measure import Figure, Scale, in_turn
from benchmarks.speed.report import RATIO, Report, Row
from benchmarks.speed.server import LATECOMER, Peer, Traffic, config, load, save_zeros
from tools.local import Child, LocalFederation

WITHOUT, WITH = "without counting", "fedserver run"
TRAFFIC = Traffic("top-k 1 % of 10,000 values", LATECOMER, "sparse", 600, 200)


def run(scale: Scale) -> Report:
    """Loads both servers in turn."""
    return Report(
        name="counting",
        title="counting bytes: small updates, fsync on, 4 clients at once",
        groups={TRAFFIC.title: _measure(scale)},
        remarks=("ratio: processor time that an update takes the server's process",),
    )


def _measure(scale: Scale) -> list[Row]:
    updates = scale.of(TRAFFIC.updates, 8)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        peers = {}
        for name in (WITHOUT, WITH):
            folder = Path(scratch) / name
            folder.mkdir()
            save_zeros(folder / "model.safetensors", 10_000)
            settings = config(TRAFFIC.algorithm, scale)
            federation = LocalFederation(folder, settings, app="")
            stack.enter_context(federation)
            server = _start(federation, counts=name == WITH).process
            assert server is not None
            model = str(folder / "model.safetensors")
            pushes = stack.enter_context(load(federation.address, model, TRAFFIC))
            peers[name] = Peer(server.pid, pushes)
            pushes.ask(scale.of(TRAFFIC.before, 8))
        works = {name: peer.work(updates) for name, peer in peers.items()}
        seconds = in_turn(works, scale.rounds)
    cpu = {name: Figure(peer.cpu[1:]) for name, peer in peers.items()}
    return [
        Row(
            name,
            {
                "updates/s": seconds[name].rate(updates),
                "CPU ms": cpu[name].times(1e3 / updates),
                RATIO: _over(cpu[name], cpu[WITHOUT]),
            },
            WITHOUT,
        )
        for name in peers
    ]


def _over(mine: Figure, theirs: Figure) -> Figure:
    """The ratio; 1 of a trial so short that the clock has not ticked."""
    pairs = zip(mine.values, theirs.values, strict=True)
    return Figure([a / b if b else 1.0 for a, b in pairs])


def _start(federation: LocalFederation, *, counts: bool) -> Child:
    if counts:
        return federation.server("--no-evaluator")
    words = ["-m", "benchmarks.speed.uncounted", "run", str(federation.path)]
    command = [sys.executable, *words, "--log", "json", "--no-evaluator"]
    child = Child("server", command, federation.folder, federation.environment)
    federation.children["server"] = child
    child.start()
    federation.wait_until(
        lambda: any(line["event"] == "listening" for line in child.lines()),
        "the server listens",
    )
    return child
