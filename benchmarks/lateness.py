"""``python -m benchmarks.lateness``: lateness of updates, by the clients in flight.

The default recipe with a thousand clients that all train at once, in simulated time. It
prints the shares of all updates that are later than some limits: 100 versions, and
multiples of W / K, with W clients in flight and K updates a version. Then it compares
the accuracy with the limit of the recipe and with a limit of 100 versions.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

import latecomer
from benchmarks.basis import stamp
from fedcore.partitions import dirichlet
from fedcore.workload import Client
from fedrun.data import digits
from fedtorch import TorchWorkload

RESULTS = Path(__file__).parent / "results" / "lateness.json"
CLIENTS, EACH = 1_000, 100  # updates of a client, on average
ENDLESS = 10**9
FIXED = 100
TIMES = (1, 2, 5, 10, 20, 40)
SPEEDS = ("same", "log_normal", "pareto")  # of devices
JITTERS = ("same", "exponential")  # of tasks
SEEDS, RATES = (1, 2), (1.0, 0.25)  # of the server
SECONDS, LAST = 25.0, 3  # simulated; the accuracy is the mean of so many evaluations


def simulate(speed: str, jitter: str) -> dict[str, Any]:
    """How late the updates of one federation are."""
    x, y = digits("train")
    workload = TorchWorkload(
        model=lambda: nn.Linear(x.shape[1], 10),
        loss=nn.CrossEntropyLoss(),
        train_data=lambda client: (
            x[client.index :: CLIENTS],
            y[client.index :: CLIENTS],
        ),
    )
    config = {
        "algorithm": {
            "kind": "latecomer",
            "staleness_limit": ENDLESS,
            "client": {"kind": "local_sgd", "lr": 1e-3, "steps": 1, "batch": 1},
            "uplink": {"kind": "identity"},
            "downlink": {"kind": "identity"},
        },
        "simulate": {
            "clients": CLIENTS,
            "step_seconds": 1.0,
            "speed": {"kind": speed},
            "jitter": {"kind": jitter},
        },
        "stop": {"updates": CLIENTS * EACH},
    }
    with tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(config, workload, folder=Path(folder) / "run")
        late = np.array(results.updates["staleness"])
        buffer = results.configured.config["algorithm"]["buffer"]
    mean = CLIENTS / buffer
    return {
        "speed": speed,
        "jitter": jitter,
        "clients": CLIENTS,
        "buffer": buffer,
        "updates": len(late),
        "mean": float(late.mean() / mean),
        "most": float(late.max() / mean),
        "above_fixed": float((late > FIXED).mean()),
        "above": {str(n): float((late > n * mean).mean()) for n in TIMES},
    }


def learn(rate: float, limit: int | None, seed: int) -> dict[str, Any]:
    """What one federation has learnt after some time, of twenty kinds of clients."""
    x, y = digits("train")
    parts = dirichlet(y, clients=20, alpha=0.3, seed=0)

    def train_data(client: Client) -> Any:
        rows = parts[client.index % len(parts)]
        rng = np.random.default_rng(client.index)
        some = rng.choice(rows, min(20, len(rows)), replace=False)
        return x[some], y[some]

    def accuracy(outputs: Any, targets: Any) -> dict[str, Any]:
        return {"accuracy": (outputs.argmax(1) == targets).float().mean()}

    workload = TorchWorkload(
        model=lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        loss=nn.CrossEntropyLoss(),
        metrics=accuracy,
        train_data=train_data,
        test_data=lambda: digits("test"),
    )
    config = {
        "seed": seed,
        "algorithm": {
            "kind": "latecomer",
            "staleness_limit": limit,
            "server": {"kind": "sgd", "lr": rate},
            "client": {"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 8},
        },
        "simulate": {
            "clients": CLIENTS,
            "step_seconds": 0.2,
            "speed": {"kind": "log_normal"},
        },
        "stop": {"seconds": SECONDS},
        "evaluate": {"every_versions": 500},
    }
    with tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(config, workload, folder=Path(folder) / "run")
        updates = results.summary["updates"]
        return {
            "rate": rate,
            "limit": limit,
            "seed": seed,
            "accepted": updates["accepted"],
            "stale": updates.get("rejected_stale", 0),
            "accuracy": float(np.mean(results.central["accuracy"][-LAST:])),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser("benchmarks.lateness", description=__doc__)
    parser.add_argument("--only", choices=("late", "learnt"), help="one of the tables")
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 130
    saved = json.loads(RESULTS.read_text(encoding="utf-8"))
    if options.only != "learnt":
        saved["late"] = [simulate(speed, j) for speed in SPEEDS for j in JITTERS]
        console.print(_late(saved["late"]))
    if options.only != "late":
        saved["learnt"] = [
            learn(rate, limit, seed)
            for rate in RATES
            for limit in (None, FIXED)
            for seed in SEEDS
        ]
        console.print(_learnt(saved["learnt"]))
    if options.save:
        saved |= stamp()
        RESULTS.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return 0


def _late(runs: Sequence[dict[str, Any]]) -> Table:
    table = Table(
        title=f"{CLIENTS:,} clients: staleness in units of W / K",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for column in ("devices", "tasks", "mean", "most", f"above {FIXED} versions"):
        table.add_column(column, justify="right")
    for times in TIMES:
        table.add_column(f"above {times}", justify="right")
    for run in runs:
        table.add_row(
            run["speed"],
            run["jitter"],
            f"{run['mean']:.2f}",
            f"{run['most']:.1f}",
            f"{run['above_fixed']:.1%}",
            *(f"{share:.3%}" for share in run["above"].values()),
        )
    return table


def _learnt(runs: Sequence[dict[str, Any]]) -> Table:
    table = Table(
        title=f"Learnt after {SECONDS:g} simulated seconds",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    columns = ("server rate", "limit", "seed", "accepted", "stale")
    for column in (*columns, "accuracy"):
        table.add_column(column, justify="right")
    for run in runs:
        *facts, accuracy = run.values()
        table.add_row(*(str(fact) for fact in facts), f"{accuracy:.3f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
