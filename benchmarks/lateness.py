"""``python -m benchmarks.lateness``: how late updates are, beside what is in flight.

The default recipe with a thousand clients that all train at once, in simulated time. It
prints the shares of all updates that are later than some limits: 100 versions, and
multiples of W / K, with W clients in flight and K updates a version.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

import fedsim
from fedrun.data import digits
from fedtorch import TorchWorkload

RESULTS = Path(__file__).parent / "results" / "lateness.json"
CLIENTS, EACH = 1_000, 100  # updates of a client, on average
ENDLESS = 10**9
FIXED = 100
TIMES = (1, 2, 5, 10, 20, 40)
SPEEDS = ("same", "log_normal", "pareto")  # of devices
JITTERS = ("same", "exponential")  # of tasks


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
        results = fedsim.run(config, workload, folder=Path(folder) / "run")
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser("benchmarks.lateness", description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    options = parser.parse_args(arguments)
    told = [simulate(speed, jitter) for speed in SPEEDS for jitter in JITTERS]
    table = Table(
        title=f"{CLIENTS:,} clients: staleness in units of W / K",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for column in ("devices", "tasks", "mean", "most", f"above {FIXED} versions"):
        table.add_column(column, justify="right")
    for times in TIMES:
        table.add_column(f"above {times}", justify="right")
    for one in told:
        table.add_row(
            one["speed"],
            one["jitter"],
            f"{one['mean']:.2f}",
            f"{one['most']:.1f}",
            f"{one['above_fixed']:.1%}",
            *(f"{share:.3%}" for share in one["above"].values()),
        )
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 130
    console.print(table)
    if options.save:
        RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
