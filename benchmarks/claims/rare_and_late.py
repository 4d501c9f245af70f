"""Claim 18: the default recipe learns labels that only a late client has.

Twelve clients of the digits. One of them alone holds all zeros and takes many times as
long for its 20 local steps as the others. The recipe ``latecomer`` runs unchanged,
codecs included, for 240 versions on a virtual clock, and without one of its parts.
Weights that depend only on the staleness dampen the zeros away; a boost of rare labels
keeps them. AdaSGD has such a boost as well (Damaskinos et al., "FLeet", Middleware
2020), over an exponential.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

import latecomer
from benchmarks.claims.perceptron import Scores, accuracy, perceptron
from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    average,
    difference,
)
from benchmarks.claims.setup import digits
from fedcore.partitions import lone_class
from fedcore.typing import JSON, Seconds
from fedtorch import TorchWorkload

CLIENTS, STEPS, RARE = 12, 20, 0
PACES = (0.35, 0.8)  # seconds for the steps, from the fastest to the slowest
LATE, VERY_LATE = 1.5, 6.0
VARIANTS: dict[str, JSON] = {  # what is not as the recipe has it
    "latecomer": {},
    "without averaging": {"server": {"kind": "sgd", "lr": 2.0}},
    "without boost": {"staleness": {"kind": "delay_adaptive", "limit": 2.5}},
    "AdaSGD, s = 90": {"staleness": {"kind": "ada_sgd", "percentile": 90}},
    "AdaSGD, s = 99.7": {"staleness": {"kind": "ada_sgd"}},
    "DynSGD": {"staleness": {"kind": "inverse"}},
    "DynSGD and boost": {
        "staleness": {"kind": "label_boost", "inner": {"kind": "inverse"}}
    },
    "no weights": {"staleness": {"kind": "constant"}},
}
OURS, UNBOOSTED = "latecomer", "without boost"


def run(scale: Scale) -> Report:
    """All variants, with a client that is late and one that is very late."""
    versions = scale.of(240, 8)
    columns = (f"recall@{versions // 3}", f"recall@{versions}", "accuracy")
    tables, recall = [], dict[tuple[str, Seconds], Cell]()
    for late in (LATE, VERY_LATE):
        rows = {
            name: [
                Cell(values)
                for values in zip(
                    *(measured(variant, late, versions, seed) for seed in scale.seeds),
                    strict=True,
                )
            ]
            for name, variant in VARIANTS.items()
        }
        title = f"The rare class takes {late:g} s, others {PACES[0]:g} to {PACES[1]:g}"
        tables.append(Table(title, columns, rows))
        recall |= {(name, late): cells[1] for name, cells in rows.items()}
    gap = difference(recall[OURS, VERY_LATE], recall[UNBOOSTED, VERY_LATE])
    return Report(
        number=18,
        title="Labels that only a late client has are learnt",
        source="this project; the boost is FLeet's, Middleware 2020",
        tables=tables,
        checks=[
            at_least(f"{LATE:g} s, recall", average(recall[OURS, LATE]), 0.9),
            at_least(f"{VERY_LATE:g} s, more recall than without a boost", gap, 0.3),
        ],
    )


def measured(
    variant: JSON, late: Seconds, versions: int, seed: int
) -> tuple[float, float, float]:
    """Recall of the rare class after a third and at the end; accuracy at the end."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "clients.csv"
        trace.write_text(population(late))
        results = latecomer.run(
            {
                "seed": seed,
                "algorithm": {
                    "kind": "latecomer",
                    "client": {
                        "kind": "local_sgd",
                        "lr": 0.2,
                        "steps": STEPS,
                        "batch": 16,
                    },
                    **variant,
                },
                "evaluate": {"every_versions": max(1, versions // 24)},
                "stop": {"versions": versions},
                "simulate": {"trace": str(trace)},
            },
            workload(),
            folder=Path(folder) / "run",
        )
        recall, accuracy = (results.central[name] for name in ("recall", "accuracy"))
    return recall[len(recall) // 3], recall[-1], accuracy[-1]


def population(late: Seconds) -> str:
    """A trace: who is there all the time, and how fast; the first one is late."""
    paces = [late, *np.linspace(*PACES, CLIENTS - 1)]
    rows = [
        f"client-{client},0,,there,{pace / STEPS:g}"
        for client, pace in enumerate(paces)
    ]
    return "\n".join(["client,start,end,state,step_seconds", *rows, ""])


def workload() -> TorchWorkload:
    """Returns the digits, with recall of the rare class among the metrics."""
    parts = lone_class(digits("train")[1], clients=CLIENTS, label=RARE)

    def metrics(output: torch.Tensor, target: torch.Tensor) -> Scores:
        right, rare = output.argmax(1) == target, target == RARE
        return accuracy(output, target) | {"recall": right[rare].float().mean()}

    return perceptron(parts, metrics)
