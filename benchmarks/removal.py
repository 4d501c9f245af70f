"""``python -m benchmarks.removal``: a client removed by replay, and by training again.

The digits, an MLP and twenty clients of a Dirichlet split. Each client in turn is
removed with its whole contribution: by replaying the journal without it, which keeps
everything that the others learnt from its updates, and by training all others again
with the same order of arrival. The distance between the two results is a share of the
distance from the recorded model to the retrained one.
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
from rich.console import Console
from torch import nn

import latecomer
from benchmarks.series import add
from benchmarks.speed.measure import machine
from fedcore.partitions import dirichlet
from fedrun.data import digits
from fedrun.files import load_model
from fedtorch import TorchWorkload
from latecomer.metrics import Accuracy

RESULTS = Path(__file__).parent / "results" / "removal.json"
CLIENTS, SEEDS = 20, (0, 1, 2)
REMOVED = "client-3"
VERSIONS = (20, 100)
FIRST = 1  # a run whose updates are all based on version 0: the two must be equal


def workload(seed: int) -> TorchWorkload:
    """An MLP on the digits, shared out unevenly."""
    x, y = digits("train")
    parts = dirichlet(y, clients=CLIENTS, alpha=0.5, seed=seed)
    return TorchWorkload(
        model=lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        loss=nn.CrossEntropyLoss(),
        metrics={"accuracy": Accuracy()},
        train_data=lambda client: (x[parts[client.index]], y[parts[client.index]]),
        test_data=lambda: digits("test"),
    )


def config(versions: int, seed: int, **simulate: Any) -> dict[str, Any]:
    """A buffered federation of FedBuff, or one round in which all take part."""
    algorithm: dict[str, Any] = {"kind": "fed_buff", "buffer": 5}
    if versions == FIRST:
        algorithm = {"kind": "fed_avg", "buffer": CLIENTS}
    client = {"kind": "local_sgd", "lr": 0.1, "steps": 10, "batch": 16}
    return {
        "seed": seed,
        "algorithm": {**algorithm, "client": client},
        "stop": {"versions": versions},
        "evaluate": {"every_versions": versions},
        "simulate": {
            "clients": CLIENTS,
            "speed": {"kind": "log_normal"},
            "engine": {"kind": "exact"},
            **simulate,
        },
    }


def remove(versions: int, seed: int) -> dict[str, Any]:
    """Removes the client in both ways, and compares the three models."""
    work = workload(seed)
    with tempfile.TemporaryDirectory() as folder:
        run, again = Path(folder) / "run", Path(folder) / "again"
        latecomer.run(config(versions, seed), work, folder=run)
        told = config(versions, seed, arrivals=str(run), without=[REMOVED])
        latecomer.run(told, work, folder=again)
        found = latecomer.replay(run, without=REMOVED, app=work)
        _, retrained_D = load_model(again / "models" / "last.safetensors")
    with_it_D, without_D = found.recorded.flat_D, found.replayed.flat_D
    moved = float(np.linalg.norm(with_it_D - retrained_D))
    apart = float(np.linalg.norm(without_D - retrained_D))
    row = found.evaluations["metric"].index("accuracy")
    model = work.flat()
    values, _ = model.evaluate(retrained_D, digits("test"))
    return {
        "versions": versions,
        "seed": seed,
        "share": found.recorded.share(REMOVED),
        "equal": bool(np.array_equal(without_D, retrained_D)),
        "relative": apart / moved,
        "of_norm": apart / float(np.linalg.norm(retrained_D)),
        "recorded": found.evaluations["recorded"][row],
        "replayed": found.evaluations["replayed"][row],
        "retrained": float(values["accuracy"]),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each run."""
    parser = argparse.ArgumentParser("benchmarks.removal", description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console, where, rows = Console(highlight=False), machine(), []
    for versions in (FIRST, *VERSIONS):
        for seed in SEEDS:
            rows.append(remove(versions, seed))
            console.print(json.dumps(rows[-1]), soft_wrap=True)
    if options.save:
        add(RESULTS, {"machine": where, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
