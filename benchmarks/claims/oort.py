"""Claim 27: cohorts of the most promising clients reach an accuracy sooner.

Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided
Participant Selection", OSDI 2021: 1.2 to 14.1 times faster, and 1.3 to 9.8 % more
accurate, than a random choice. Sixty clients of the digits with unequal labels and
amounts of data (Dirichlet .3) and log-normal speeds; one local epoch, so that a client
with many samples takes long; versions of 6 updates. Oort is compared with its two
halves: the utility of the data alone, and the speed alone. The speed alone, which
ignores how useful a client's data are, is the negative control.
"""

from benchmarks.claims.perceptron import first, perceptron, simulate
from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    difference,
    ratio,
)
from benchmarks.claims.setup import digits
from fedcore.partitions import dirichlet
from fedcore.typing import JSON, Seconds

CLIENTS, COHORT, ALPHA, LR = 60, 6, 0.3, 0.1
GOAL, BUDGET = 0.9, 30.0
UNIFORM, OORT = "a random choice", "Oort"
SELECTIONS: dict[str, JSON] = {
    UNIFORM: {"kind": "uniform"},
    OORT: {"kind": "oort"},
    "Oort, T as in its published code": {"kind": "oort", "percentile": 10},
    "its utility of data alone": {"kind": "oort", "percentile": 100},
    "its speed alone": {"kind": "oort", "clip": 1e-9},
}


def run(scale: Scale) -> Report:
    """Time to an accuracy, and the accuracy at the end, by selection."""
    budget = BUDGET if not scale.quick else 1.0
    rows = {}
    for name, selection in SELECTIONS.items():
        found = [measured(selection, budget, seed) for seed in scale.seeds]
        times, ends = zip(*found, strict=True)
        rows[name] = [Cell(times, budget=budget), Cell(ends)]
    uniform, oort = rows[UNIFORM], rows[OORT]
    return Report(
        number=27,
        title="Clients that promise most bring a model sooner",
        source="Lai et al., Oort, OSDI 2021",
        tables=[
            Table(
                f"{CLIENTS} clients, {COHORT} updates a version",
                (f"s to accuracy {GOAL:g}", f"accuracy after {budget:g} s"),
                rows,
            )
        ],
        checks=[
            at_least(
                "times as soon as a random choice", ratio(uniform[0], oort[0]), 1.2
            ),
            at_least(
                "more accurate in the end",
                difference(oort[1], uniform[1]),
                0.013,
                gates=False,
            ),
        ],
    )


def measured(selection: JSON, budget: Seconds, seed: int) -> tuple[Seconds, float]:
    """When the accuracy is reached, in seconds, and the mean of the last three."""
    _, y = digits("train")
    parts = dirichlet(y, clients=CLIENTS, alpha=ALPHA, seed=seed)
    config = {
        "seed": seed,
        "algorithm": {
            "kind": "oort",  # whatever the selection
            "buffer": COHORT,
            "selection": selection,
            "client": {"kind": "local_sgd", "lr": LR, "epochs": 1, "batch": 8},
        },
        "evaluate": {"every_versions": 1},
        "stop": {"seconds": budget},
        "simulate": {
            "clients": CLIENTS,
            "speed": {"kind": "log_normal", "sigma": 1.0},
        },
    }
    table = simulate(config, perceptron(parts))
    accuracy = table["accuracy"]
    reached = first(table["seconds"], accuracy >= GOAL, budget)
    return reached, float(accuracy[-3:].mean())
