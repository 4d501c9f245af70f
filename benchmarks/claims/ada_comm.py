"""Claim 28: AdaComm reaches a loss in less time than synchronous SGD.

Wang, Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime
Trade-off in Local-Update SGD", MLSys 2019, arXiv 1810.08313. Eight clients of the
digits with two shards each, all in every round, on a virtual clock: a round takes 10 s
of communication and 1.2 s a local step. AdaComm begins with 32 steps and checks the
loss every 120 s. It is compared with fixed numbers of steps; one step is synchronous
SGD.

And in the asynchronous default recipe: 30 clients whose speeds are log-normal, with
AdaComm and I-Prof beside the usual 20 steps and fewer.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import latecomer
from benchmarks.claims.perceptron import perceptron
from benchmarks.claims.report import Cell, Report, Scale, Table, at_least, ratio
from benchmarks.claims.setup import digits
from fedcore.partitions import dirichlet, shards
from fedcore.typing import Seconds
from fedtorch import TorchWorkload

CLIENTS, COMMUNICATION, STEP = 8, 10.0, 1.2
LR, HIGHER = 0.1, 0.2
GOAL, BUDGET = 0.3, 6000.0
MOST, FIXED = 32, (1, 4, 8, 16, 32)
ADAPTIVE = "AdaComm, 32 at first"
MANY, USUAL, ACCURACY, LIMIT = 30, 20, 0.94, 60.0
CONTROLS: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "20 steps": (USUAL, []),
    "5 steps": (5, []),
    "AdaComm, 20 at first": (USUAL, [{"kind": "ada_comm", "period": 0.5}]),
    "I-Prof, .4 s": (USUAL, [{"kind": "i_prof", "seconds": 0.4}]),
    "I-Prof, .2 s": (USUAL, [{"kind": "i_prof", "seconds": 0.2}]),
}


def run(scale: Scale) -> Report:
    """Measures seconds to a loss in rounds, and to an accuracy without rounds."""
    budget = BUDGET if not scale.quick else 200.0
    rows: dict[str, list[Cell]] = {}
    fixed = FIXED[:1] if scale.quick else FIXED
    for name, steps in {ADAPTIVE: MOST, **{f"τ = {n}": n for n in fixed}}.items():
        found = [
            [
                in_rounds(steps, name == ADAPTIVE, lr, budget, seed)
                for seed in scale.seeds
            ]
            for lr in (LR, HIGHER)
        ]
        rows[name] = [
            Cell([round(at) for at in seeds], budget=budget) for seeds in found
        ]
    limit = LIMIT if not scale.quick else 2.0
    without = {
        name: [
            Cell(
                [freely(*control, limit, seed) for seed in scale.seeds],
                budget=limit,
            )
        ]
        for name, control in [*CONTROLS.items()][: scale.of(len(CONTROLS), 3)]
    }
    synchronous, adaptive = rows["τ = 1"][0], rows[ADAPTIVE][0]
    best = min((rows[f"τ = {n}"][0] for n in fixed), key=lambda cell: cell.mean)
    return Report(
        number=28,
        title="Fewer local steps as the loss falls save time",
        source="Wang, Joshi, MLSys 2019",
        tables=[
            Table(
                f"In rounds, seconds to a test loss of {GOAL:g}",
                (f"lr {LR:g}", f"lr {HIGHER:g}"),
                rows,
            ),
            Table("Without rounds", (f"s to accuracy {ACCURACY:g}",), without),
        ],
        checks=[
            at_least(
                "times as fast as synchronous SGD", ratio(synchronous, adaptive), 3.0
            ),
            at_least(
                "times as fast as the best fixed τ",
                ratio(best, adaptive),
                1.0,
                gates=False,
            ),
        ],
    )


def in_rounds(
    steps: int, adapts: bool, lr: float, budget: Seconds, seed: int
) -> Seconds:
    """Returns the virtual seconds after which rounds reach the loss."""
    _, y = digits("train")
    parts = shards(y, clients=CLIENTS, per_client=2, seed=seed)
    controllers = [{"kind": "ada_comm", "period": 120.0}] if adapts else []
    table = simulated(
        {
            "seed": seed,
            "algorithm": {
                "kind": "fed_avg",
                "buffer": CLIENTS,
                "weigh_by": "updates",
                "client": {"kind": "local_sgd", "lr": lr, "steps": steps},
                "controllers": controllers,
            },
            "evaluate": {"every_versions": 1},
            "stop": {"seconds": budget, "target": {"loss": GOAL}},
            "simulate": {
                "clients": CLIENTS,
                "step_seconds": STEP,
                # A request, a model, an update and a verdict.
                "link": {
                    "latency": COMMUNICATION / 4,
                    "up_mbit": 1e6,
                    "down_mbit": 1e6,
                },
            },
        },
        perceptron(parts),
    )
    reached = [
        at
        for at, loss in zip(table["seconds"], table["loss"], strict=True)
        if loss <= GOAL
    ]
    return min(reached, default=budget)


def freely(
    steps: int, controllers: list[dict[str, Any]], limit: Seconds, seed: int
) -> Seconds:
    """Returns the virtual seconds to an accuracy where nobody waits for a round."""
    _, y = digits("train")
    parts = dirichlet(y, clients=MANY, alpha=0.3, seed=seed)
    client = {"kind": "local_sgd", "lr": LR, "steps": steps}
    table = simulated(
        {
            "seed": seed,
            "algorithm": {
                "kind": "latecomer",
                "client": client,
                "controllers": controllers,
            },
            "evaluate": {"every_versions": 2},
            "stop": {"seconds": limit, "target": {"accuracy": ACCURACY}},
            "simulate": {
                "clients": MANY,
                "speed": {"kind": "log_normal", "sigma": 1.0},
                "jitter": {"kind": "log_normal", "sigma": 0.05},
            },
        },
        perceptron(parts),
    )
    reached = [
        at
        for at, accuracy in zip(table["seconds"], table["accuracy"], strict=True)
        if accuracy >= ACCURACY
    ]
    return min(reached, default=limit)


def simulated(config: dict[str, Any], mine: TorchWorkload) -> Mapping[str, Any]:
    """Runs a simulation; returns columns of metrics and seconds, a row a version."""
    with tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(config, mine, folder=Path(folder) / "run")
        return dict(results.central)
