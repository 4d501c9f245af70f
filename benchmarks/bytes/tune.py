"""``python -m benchmarks.bytes.tune``: a task's learning rate, uncompressed.

FedAvg is simulated with each rate; a tenth of every client's rows is held out and
evaluated instead of the test set, so that the test set does not choose the rate that it
judges. Accuracy is the mean of the last ten versions, as in the runs.
"""

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import latecomer
from benchmarks.bytes.__main__ import DATA, read, write
from benchmarks.bytes.data import Rows, held_out
from benchmarks.bytes.federation import LAST
from benchmarks.bytes.settings import SETTINGS
from benchmarks.bytes.tasks import TASKS, Task
from fedcore.workload import Client, Workload
from fedrun.app import load_app
from fedrun.config import parse_config

SEED = 1000  # of no run


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries every rate, and keeps what came of it."""
    options = _options(arguments)
    task = TASKS[options.task]
    found = {}
    for rate in options.rates:
        accuracy = measure(task, options.data, rate, options.rounds or task.rounds)
        print(f"{options.task}, lr {rate:g}: {accuracy:.4f}", flush=True)
        found[f"{rate:g}"] = round(accuracy, 4)
    if options.save:
        kept = read()
        kept.setdefault(options.task, {}).setdefault("rates", {}).update(found)
        write(kept)
    return 0


def measure(task: Task, data: str, rate: float, rounds: int) -> float:
    """The accuracy on what was held out."""
    task = dataclasses.replace(task, lr=rate)
    plain = SETTINGS[0]
    with tempfile.TemporaryDirectory() as folder:
        config = parse_config(
            {
                "seed": SEED,
                "algorithm": {
                    **task.algorithm(rounds),
                    "uplink": plain.uplink,
                    "downlink": plain.downlink,
                },
                "evaluate": {"every_versions": 1},
                "stop": {"versions": rounds},
                "simulate": {"clients": task.clients},
            }
        )
        results = latecomer.run(
            config, workload(task, data), folder=Path(folder) / "run"
        )
        return float(np.mean(results.metrics["accuracy"][-LAST:]))


def workload(task: Task, data: str) -> Workload:
    """The task's, with what was held out as its test."""
    shared = held_out(task.share)(data, task.clients, SEED)
    found = load_app(task.app)

    def train_data(client: Client) -> Rows:
        return shared.train.take(shared.parts[client.index])

    return dataclasses.replace(
        found, train_data=train_data, test_data=lambda: tuple(shared.test)
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes.tune")
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--rates", nargs="+", type=float, required=True)
    parser.add_argument("--rounds", type=int, help="instead of the task's own")
    parser.add_argument("--data", default=os.environ.get(DATA, "data"))
    parser.add_argument("--save", action="store_true", help="keep it with the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
