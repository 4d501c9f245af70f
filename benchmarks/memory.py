"""``python -m benchmarks.memory``: memory of server and clients, in models.

A server and clients as real processes, over loopback: some versions of a model of
``--mb`` megabytes, with uncompressed updates (FedAvg) and with the default recipe,
whose clients have an error memory. A process's figure is its highest memory
(``VmHWM``), less that of the same process with a tiny model, divided by the bytes of
the model.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.series import add
from benchmarks.speed.measure import machine
from benchmarks.tables import show
from tools.local import Child, LocalFederation

RESULTS = Path(__file__).parent / "results" / "memory.json"
LAYER = 2048  # inputs and outputs of a layer: 16.8 MB
TINY = 0  # layers
VERSIONS = 4
OFTEN = 0.01  # seconds between two looks at a process
PATIENCE = 1800.0
ALGORITHMS: dict[str, dict[str, Any]] = {
    "fed_avg": {
        "kind": "fed_avg",
        "client": {"kind": "local_sgd", "lr": 1e-3, "steps": 2, "batch": 2},
    },
    "latecomer": {
        "kind": "latecomer",
        "client": {"kind": "local_sgd", "lr": 1e-3, "steps": 2, "batch": 2},
    },
}
APP = """
import numpy as np
from torch import nn
from latecomer import TorchWorkload

x = np.random.default_rng(0).standard_normal((8, {width})).astype(np.float32)
y = np.arange(8) % 2


def model():
    layers = [nn.Linear({width}, {width}) for _ in range({layers})]
    return nn.Sequential(*layers, nn.Linear({width}, 2))


workload = TorchWorkload(
    model=model, loss=nn.CrossEntropyLoss(), train_data=lambda client: (x, y)
)
"""


def layers_of(megabytes: float) -> int:
    """Returns how many layers a model of so many megabytes has, one at least."""
    return max(1, round(megabytes * 1e6 / (4 * LAYER * LAYER)))


def nbytes_of(layers: int) -> int:
    """Returns the bytes of a model of so many layers in float32."""
    return 4 * (layers * (LAYER + 1) * LAYER + 2 * (LAYER + 1))


def measure(
    layers: int, algorithm: dict[str, Any], clients: int, folder: Path
) -> dict[str, int]:
    """Returns the highest memory in bytes of the server, and of a client.

    Args:
        layers: of the model.
        algorithm: of the federation.
        clients: how many there are; the highest of theirs counts.
        folder: for all files.
    """
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(APP.format(width=LAYER, layers=layers))
    config = {
        "app": "app.py:workload",
        "model": "model.safetensors",
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "algorithm": {**algorithm, "buffer": clients, "min_clients": clients},
        "stop": {"versions": VERSIONS},
        "timeouts": {"linger": 60, "lease": PATIENCE},
    }
    with LocalFederation(folder, config, "app.py:workload") as federation:
        peaks: dict[str, int] = {}
        with watched(federation.children, peaks):
            server = federation.server("--no-evaluator")
            joined = [
                federation.client(index, clients, "--give-up", "60")
                for index in range(clients)
            ]
            for child in [*joined, server]:
                status = child.wait(PATIENCE)
                if status:
                    raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
    most = max(peak for name, peak in peaks.items() if name != "server")
    return {"server": peaks["server"], "client": most}


@contextmanager
def watched(children: dict[str, Child], peaks: dict[str, int]) -> Iterator[None]:
    """Notes the highest memory of each process for as long as the block lasts."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for name, child in list(children.items()):
                peaks[name] = max(peaks.get(name, 0), peak_of(child))
            time.sleep(OFTEN)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def peak_of(child: Child) -> int:
    """The highest memory that a process ever had, in bytes; 0: it has ended."""
    process = child.process
    if process is None:
        return 0
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return 1024 * int(lines.get("VmHWM", "0 kB").split()[0])


def in_models(megabytes: float, algorithm: str, clients: int) -> dict[str, Any]:
    """Measures an algorithm with a model of this size, and with a tiny one."""
    layers, settings = layers_of(megabytes), ALGORITHMS[algorithm]
    nbytes = nbytes_of(layers)
    with tempfile.TemporaryDirectory(prefix="memory") as folder:
        tiny = measure(TINY, settings, clients, Path(folder) / "tiny")
        large = measure(layers, settings, clients, Path(folder) / "large")
    return {
        "algorithm": algorithm,
        "clients": clients,
        "model_bytes": nbytes,
        "baseline_bytes": tiny,
        "peak_bytes": large,
        **{who: (large[who] - tiny[who]) / nbytes for who in ("server", "client")},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each algorithm."""
    parser = argparse.ArgumentParser("benchmarks.memory", description=__doc__)
    parser.add_argument("--mb", type=float, default=40, help="megabytes of the model")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--only", choices=ALGORITHMS, help="this algorithm alone")
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    options = parser.parse_args(arguments)
    where, console = machine(), Console(highlight=False)
    names = [options.only] if options.only else list(ALGORITHMS)
    rows = [in_models(options.mb, name, options.clients) for name in names]
    show(
        console,
        f"models of memory at most, of {rows[0]['model_bytes'] / 1e6:.0f} MB",
        ("", "server", "client"),
        [
            (row["algorithm"], f"{row['server']:.2f}", f"{row['client']:.2f}")
            for row in rows
        ],
    )
    if options.save:
        add(RESULTS, {"machine": where, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
