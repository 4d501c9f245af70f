"""``python -m benchmarks.leave_one_out``: a ranking by replay, and by training again.

The digits on eight unequal clients: a Dirichlet split, or sizes of which each is half
of the next, with labels that differ. FedAvg of all eight and FedBuff, a linear model
and an MLP, runs of 2 to 50 versions. Each client is left out by replay, and by training
the others again with the same arrivals. Pearson's and Spearman's correlations compare
the changes of the test loss; only the journal of a run decides whether it is ranked.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
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
from fedcore.typing import Indices
from fedrun.correlation import pearson, spearman
from fedrun.data import digits
from fedrun.files import load_model
from fedtorch import TorchWorkload
from latecomer.metrics import Accuracy

RESULTS = Path(__file__).parent / "results" / "leave_one_out.json"
CLIENTS, RATE, STEPS, BATCH = 8, 0.1, 5, 16
SEEDS = range(10, 15)  # what is ranked was chosen with the seeds 0 and 1
VERSIONS = (2, 5, 15, 50)
RECIPES: dict[str, dict[str, Any]] = {
    "fed_avg": {"kind": "fed_avg", "buffer": CLIENTS},
    "fed_buff": {"kind": "fed_buff", "buffer": CLIENTS // 2},
}
SPLITS, MODELS = ("labels", "sizes"), ("linear", "mlp")


def parts(split: str, seed: int) -> Sequence[Indices]:
    """Returns the rows of the digits for each client, in the order of the clients."""
    _, y = digits("train")
    if split == "labels":
        return dirichlet(y, clients=CLIENTS, alpha=0.5, seed=seed)
    rng = np.random.default_rng(seed)
    rows = np.argsort(y + rng.normal(0.0, 2.0, len(y)))  # neighbours are alike
    size_N = rng.permutation(2.0 ** -np.arange(CLIENTS))
    ends_N = np.round(np.cumsum(size_N / size_N.sum()) * len(y)).astype(int)
    return np.split(rows, ends_N[:-1])


def workload(split: str, model: str, seed: int) -> TorchWorkload:
    """A model of the digits, shared out unevenly."""
    x, y = digits("train")
    own = parts(split, seed)

    def build() -> nn.Module:
        if model == "linear":
            return nn.Linear(64, 10)
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    return TorchWorkload(
        model=build,
        loss=nn.CrossEntropyLoss(),
        metrics={"accuracy": Accuracy()},
        train_data=lambda client: (x[own[client.index]], y[own[client.index]]),
        test_data=lambda: digits("test"),
    )


def config(recipe: str, versions: int, seed: int, **simulate: Any) -> dict[str, Any]:
    """The federation, as it is simulated first and again."""
    client = {"kind": "local_sgd", "lr": RATE, "steps": STEPS, "batch": BATCH}
    return {
        "seed": seed,
        "algorithm": {**RECIPES[recipe], "client": client},
        "stop": {"versions": versions},
        "evaluate": {"every_versions": versions},
        "simulate": {
            "clients": CLIENTS,
            "speed": {"kind": "log_normal"},
            "engine": {"kind": "exact"},
            **simulate,
        },
    }


def compare(recipe: str, split: str, model: str, versions: int, seed: int) -> Any:
    """Leaves out each client in both ways; returns how far the two agree."""
    work = workload(split, model, seed)
    flat = work.flat()

    def loss(run: Path) -> float:
        _, last_D = load_model(run / "models" / "last.safetensors")
        return flat.evaluate(last_D, digits("test"))[0]["loss"]

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        latecomer.run(config(recipe, versions, seed), work, folder=run)
        found = latecomer.leave_one_out(run, work)
        with_all, true = loss(run), []
        for left in found.clients:
            again = Path(folder) / left.client
            asked = config(
                recipe, versions, seed, arrivals=str(run), without=[left.client]
            )
            latecomer.run(asked, work, folder=again)
            true.append(loss(again) - with_all)
    replayed = [found.effect(left) for left in found.clients]
    return {
        "recipe": recipe,
        "split": split,
        "model": model,
        "versions": versions,
        "seed": seed,
        "ranked": found.is_ranked,
        "feedback": found.trust.feedback,
        "expected": found.trust.correlation,
        "pearson": pearson(replayed, true),
        "spearman": spearman(replayed, true),
        "within": sum(
            abs(one - other) <= left.doubt
            for one, other, left in zip(replayed, true, found.clients, strict=True)
        ),
    }


def summary(rows: Sequence[Any]) -> Iterable[str]:
    """Yields lines that tell how well rankings by replay agree with retraining."""
    for versions in VERSIONS:
        for recipe in RECIPES:
            some = [
                row
                for row in rows
                if (row["versions"], row["recipe"]) == (versions, recipe)
            ]
            yield f"{recipe}, {versions} versions: {_told(some)}"
    for name, some in (
        ("ranked", [row for row in rows if row["ranked"]]),
        ("not ranked", [row for row in rows if not row["ranked"]]),
    ):
        yield f"{name}: {_told(some)}"


def _told(rows: Sequence[Any]) -> str:
    if not rows:
        return "none"
    known = CLIENTS * len(rows)
    return (
        f"{sum(row['ranked'] for row in rows)} of {len(rows)} runs ranked; "
        + "; ".join(
            f"{how} {min(row[how] for row in rows):.2f} at least, median "
            f"{np.median([row[how] for row in rows]):.2f}"
            for how in ("pearson", "spearman")
        )
        + f"; {sum(row['within'] for row in rows)} of {known} effects within their "
        "doubt"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each run, and the summary."""
    parser = argparse.ArgumentParser("benchmarks.leave_one_out", description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    parser.add_argument("--saved", action="store_true", help="print the saved summary")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console, rows = Console(highlight=False), []
    if options.saved:
        rows = json.loads(RESULTS.read_text("utf-8"))["rows"]
    else:
        where = machine()
        for versions in VERSIONS:
            for recipe in RECIPES:
                for split in SPLITS:
                    for model in MODELS:
                        for seed in SEEDS:
                            rows.append(compare(recipe, split, model, versions, seed))
                            console.print(json.dumps(rows[-1]), soft_wrap=True)
        if options.save:
            add(RESULTS, {"machine": where, "rows": rows})
    for line in summary(rows):
        console.print(line, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
