"""Claim 28: AdaComm is faster than synchronous SGD, and comes as far down.

Wang, Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime
Trade-off in Local-Update SGD", MLSys 2019, arXiv 1810.08313. Eight clients of the
digits, all in every round, on a virtual clock: a round takes 10 s of communication and
1.2 s a local step. AdaComm begins with 32 steps. It is compared with fixed numbers of
steps; one step is synchronous SGD.

First the seconds to a loss, with two shards a client; AdaComm checks the loss every 120
s. Then the training loss after equal time, with checks every 300 s, where the images
can be fitted, and where noise leaves a floor: batches of 2 at a rate of 1, and a fifth
of the labels drawn at random. "No γ" are fewer steps by the loss alone.

And in the asynchronous default recipe: 30 clients whose speeds are log-normal, with
AdaComm and I-Prof beside the usual 20 steps and fewer.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.claims.perceptron import Samples, first, perceptron, simulate
from benchmarks.claims.report import Cell, Report, Scale, Table, at_least, ratio
from benchmarks.claims.setup import CLASSES, digits
from fedcore.partitions import dirichlet, iid, shards
from fedcore.typing import Seconds, Vector

CLIENTS, COMMUNICATION, STEP = 8, 10.0, 1.2
LR, HIGHER = 0.1, 0.2
GOAL, BUDGET = 0.3, 6000.0
MOST, FIXED = 32, (1, 4, 8, 16, 32)
MANY, USUAL, ACCURACY, LIMIT = 30, 20, 0.94, 60.0
Controllers = list[dict[str, Any]]
ADAPTIVE, BY_LOSS = "AdaComm, 32 at first", "AdaComm, no γ"
CONTROLS: dict[str, tuple[int, Controllers]] = {
    "20 steps": (USUAL, []),
    "5 steps": (5, []),
    "AdaComm, 20 at first": (USUAL, [{"kind": "ada_comm", "period": 0.5}]),
    "I-Prof, .4 s": (USUAL, [{"kind": "i_prof", "seconds": 0.4}]),
    "I-Prof, .2 s": (USUAL, [{"kind": "i_prof", "seconds": 0.2}]),
}


class Setting(NamedTuple):
    """Steps, and the data that they are taken on."""

    lr: float
    batch: int = 16
    random: float = 0.0  # the share of labels that are drawn at random
    is_dealt: bool = True  # whether a client has two shards, or images of all classes


QUIET = {
    "IID": Setting(HIGHER, is_dealt=False),
    "two shards": Setting(HIGHER),
}
NOISY = {
    f"{name}, noise": setting._replace(lr=1.0, batch=2, random=0.2)
    for name, setting in QUIET.items()
}


def ada_comm(period: Seconds, decay: float = 0.5) -> Controllers:
    """Returns the controller alone."""
    return [{"kind": "ada_comm", "period": period, "decay": decay}]


def run(scale: Scale) -> Report:
    """Measures seconds to a loss, the loss after equal time, and without rounds."""
    budget = BUDGET if not scale.quick else 200.0
    fixed = {f"τ = {n}": (n, list[Any]()) for n in FIXED}
    rows = {
        name: [
            Cell(
                [
                    round(to_loss(*rule, Setting(lr), budget, seed))
                    for seed in scale.seeds
                ],
                budget=budget,
            )
            for lr in (LR, HIGHER)
        ]
        for name, rule in {ADAPTIVE: (MOST, ada_comm(120.0)), **fixed}.items()
    }
    settings = {**QUIET, **NOISY}
    rules = {
        ADAPTIVE: (MOST, ada_comm(300.0)),
        BY_LOSS: (MOST, ada_comm(300.0, decay=0.999)),
        **{name: rule for name, rule in fixed.items() if name != "τ = 8"},
    }
    losses = {
        name: [
            Cell([last_loss(*rule, each, budget, seed) for seed in scale.seeds])
            for each in settings.values()
        ]
        for name, rule in rules.items()
    }
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
    best = min((rows[name][0] for name in fixed), key=lambda cell: cell.mean)
    by_setting = {
        name: dict(zip(settings, cells, strict=True)) for name, cells in losses.items()
    }
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
            Table(f"Training loss after {BUDGET:g} s", [*settings], losses),
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
            *(
                at_least(
                    f"{name}: the loss of {other} is times as high",
                    ratio(by_setting[other][name], by_setting[ADAPTIVE][name]),
                    1.0,
                    known=known,
                )
                for other, known in (
                    ("τ = 1", ""),
                    (
                        "τ = 16",
                        "many steps come down as far here",
                    ),
                )
                for name in settings
            ),
        ],
    )


def to_loss(
    steps: int, controllers: Controllers, of: Setting, budget: Seconds, seed: int
) -> Seconds:
    """Returns the virtual seconds after which rounds reach the test loss."""
    stop = {"seconds": budget, "target": {"loss": GOAL}}
    table = in_rounds(steps, controllers, of, stop, None, seed)
    return first(table["seconds"], table["loss"] <= GOAL, budget)


def last_loss(
    steps: int, controllers: Controllers, of: Setting, budget: Seconds, seed: int
) -> float:
    """Returns the mean loss over the training images in the last tenth of the time."""
    x, y = digits("train")
    rng = np.random.default_rng([seed, 28])
    is_drawn = rng.random(len(y)) < of.random
    samples = x, np.where(is_drawn, rng.integers(0, CLASSES, len(y)), y)
    table = in_rounds(steps, controllers, of, {"seconds": budget}, samples, seed)
    late = int((table["seconds"] >= 0.9 * budget).sum())
    return float(table["loss"][-max(1, late) :].mean())


def in_rounds(
    steps: int,
    controllers: Controllers,
    of: Setting,
    stop: dict[str, Any],
    samples: Samples | None,
    seed: int,
) -> dict[str, Vector]:
    """Returns seconds and losses of rounds.

    Args:
        steps: a client's, at first.
        controllers: of the steps.
        of: the rate, the batch, and who has which images.
        stop: when the run ends.
        samples: to train and to evaluate on; None: the digits of each.
        seed: of the run and of who has which images.
    """
    _, y = digits("train")
    parts = iid(y, clients=CLIENTS, seed=seed)
    if of.is_dealt:
        parts = shards(y, clients=CLIENTS, per_client=2, seed=seed)
    client = {"kind": "local_sgd", "lr": of.lr, "steps": steps, "batch": of.batch}
    return simulate(
        {
            "seed": seed,
            "algorithm": {
                "kind": "fed_avg",
                "buffer": CLIENTS,
                "weigh_by": "updates",
                "client": client,
                "controllers": controllers,
            },
            "evaluate": {"every_versions": 1},
            "stop": stop,
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
        perceptron(parts, train=samples, test=samples),
    )


def freely(steps: int, controllers: Controllers, limit: Seconds, seed: int) -> Seconds:
    """Returns the virtual seconds to an accuracy where nobody waits for a round."""
    _, y = digits("train")
    table = simulate(
        {
            "seed": seed,
            "algorithm": {
                "kind": "latecomer",
                "client": {"kind": "local_sgd", "lr": LR, "steps": steps},
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
        perceptron(dirichlet(y, clients=MANY, alpha=0.3, seed=seed)),
    )
    return first(table["seconds"], table["accuracy"] >= ACCURACY, limit)
