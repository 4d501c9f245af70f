"""``python -m benchmarks.batch_limit``: is the flag of ``fedsim scale`` right?

Digits and a small MLP, of which each client computes the gradient of two samples a
round. The limit is measured at the initial and at the trained model, for clients with
similar and with skewed labels. It is compared with the rounds to a target over the
number of clients whose gradients are averaged, each with the best of several learning
rates.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import latecomer
from benchmarks.series import add
from benchmarks.speed.measure import machine
from fedcore.errors import DivergedError
from fedcore.partitions import dirichlet
from fedcore.training import initial_model
from fedcore.workload import Client
from fedrun.config import parse_config
from fedrun.data import digits
from fedstudies.scaling.gradients import limits_at
from fedtorch import TorchWorkload
from fedtorch.models import mlp

RESULTS = Path(__file__).parent / "results" / "batch_limit.json"
CLIENTS = 64
COHORTS = (1, 2, 4, 8, 16, 32, 64)
RATES = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)
TARGET, MOST = 0.85, 400
SKEWS = {"alike": 1000.0, "skewed": 0.1}  # Dirichlet's alpha


def workload(alpha: float) -> TorchWorkload:
    """The digits, shared out among the clients."""
    x, y = digits("train")
    rows = dirichlet(y, clients=CLIENTS, alpha=alpha, seed=0)

    def train_data(client: Client) -> Any:
        own = rows[client.index]
        return x[own], y[own]

    def accuracy(logits: Any, targets: Any) -> dict[str, float]:
        return {"accuracy": (logits.argmax(1) == targets).float().mean().item()}

    return TorchWorkload(
        model=lambda: mlp(64, 32, 10),
        loss=nn.CrossEntropyLoss(),
        metrics=accuracy,
        train_data=train_data,
        test_data=lambda: digits("test"),
    )


def settings(cohort: int, rate: float, seed: int) -> dict[str, Any]:
    """One step of two samples on each of the cohort's clients makes a version."""
    return {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": cohort,
            "client": {"kind": "local_sgd", "lr": rate, "steps": 1, "batch": 2},
        },
        "seed": seed,
        "evaluate": {"every_versions": 5},
        "stop": {"versions": MOST, "target": {"accuracy": TARGET}},
        "simulate": {"clients": CLIENTS},
    }


def rounds_of(app: TorchWorkload, cohort: int, rate: float, seed: int) -> int | None:
    """The rounds until the target; None where it was not reached."""
    told = settings(cohort, rate, seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = latecomer.run(told, app, folder=Path(folder) / "run")
        except DivergedError:
            return None
        central = run.central
    for version, value in zip(central["version"], central["accuracy"], strict=True):
        if value >= TARGET:
            return int(version)
    return None


def limits(app: TorchWorkload, seed: int) -> dict[str, Any]:
    """The limits at the initial model, and at the one that has reached the target."""
    config = parse_config(settings(16, 0.3, seed))
    model = app.flat()
    weights = {"initial": initial_model(model, seed)}
    with tempfile.TemporaryDirectory() as folder:
        run = latecomer.run(config, app, folder=Path(folder) / "run")
        arrays = run.model("last")
    flat = [np.ravel(arrays[t.name]) for t in model.spec.tensors]
    weights["trained"] = np.concatenate(flat).astype(np.float32)
    found = {}
    for where, w_D in weights.items():
        own = limits_at(w_D, model, app, config)
        assert own.of_samples is not None
        assert own.of_clients is not None
        found[where] = {
            "samples": own.of_samples.beyond,
            "clients": own.of_clients.beyond,
            "clients, n·Δ": own.of_clients.limit,
        }
    return found


def fitted(rounds: dict[int, float]) -> float:
    """The limit L that fits rounds(K) = least · (1 + L / K), by relative squares."""
    cohorts = np.array(list(rounds), float)
    took = np.array(list(rounds.values()))
    design = np.stack([1 / took, 1 / (cohorts * took)], axis=1)
    (least, slope), *_ = np.linalg.lstsq(design, np.ones(len(took)), rcond=None)
    return float(slope / least)


def study(alpha: float, seeds: int) -> dict[str, Any]:
    """The limits and the rounds of one way to share the data out."""
    app = workload(alpha)
    measured = [limits(app, seed) for seed in range(seeds)]
    table: dict[int, dict[str, Any]] = {}
    for cohort in COHORTS:
        best: tuple[float, float, list[int]] | None = None
        for rate in RATES:
            took = []
            for seed in range(seeds):
                rounds = rounds_of(app, cohort, rate, seed)
                if rounds is None:
                    break
                took.append(rounds)
            if len(took) == seeds:
                mean = statistics.fmean(took)
                if best is None or mean < best[0]:
                    best = mean, rate, took
        if best is not None:
            mean, rate, took = best
            table[cohort] = {
                "rounds": mean,
                "of seeds": took,
                "lr": rate,
                "gradients": mean * cohort,
            }
            print(f"alpha {alpha:g}, {cohort:3} clients: {mean:.0f} rounds, lr {rate}")
    return {
        "limits": {
            where: {
                name: statistics.fmean(m[where][name] for m in measured)
                for name in measured[0][where]
            }
            for where in measured[0]
        },
        "rounds": {str(cohort): row for cohort, row in table.items()},
        "fitted": fitted({n: row["rounds"] for n, row in table.items()}),
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    options = parser.parse_args(words)
    where = machine()
    found = {name: study(alpha, options.seeds) for name, alpha in SKEWS.items()}
    run = {
        "machine": where,
        "clients": CLIENTS,
        "target": TARGET,
        "seeds": options.seeds,
        "rates": list(RATES),
        **found,
    }
    for name, row in found.items():
        print(name, json.dumps(row["limits"]), f"fitted {row['fitted']:.3g}")
    if options.save:
        add(RESULTS, run)


if __name__ == "__main__":
    main()
