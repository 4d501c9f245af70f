"""Claim 8: the cost of staleness depends on the optimiser and on the depth.

Dai, Zhou, Dong, Zhang, Xing, "Toward Understanding the Impact of Staleness in
Distributed Machine Learning", ICLR 2019, arXiv 1810.03264, §3. P = 8 workers with a
copy of the model and an optimiser state each; every update reaches every copy after a
delay of 0 to s iterations (:mod:`fedstudies.staleness.training`, which is that of
``fedsim staleness``). The slowdown is the number of iterations to 92 % of test
accuracy, divided by that for s = 0 with the same seed. The network of the optimisers
has one hidden layer of 32; the depths are tested with SGD. The answer for the
optimisers depends on the initial weights, so both are shown: PyTorch's default, and
He's initialisation; the depths begin with the latter.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
    difference,
    ratio,
)
from benchmarks.claims.setup import CLASSES, HIDDEN, PIXELS, digits
from fedcore.training import initial_model
from fedstudies.staleness.slowdown import Row
from fedstudies.staleness.training import OPTIMIZERS, Optimizer, Problem

STALENESS = (0, 4, 8, 16, 32)
EXPECTED = {"sgd": 1.4, "momentum": 3.2, "adam": 1.7, "rms_prop": 1.4, "adagrad": 2.3}
DEPTHS = (1, 3, 6)
LATE = 16  # the staleness of the checks
DEEP_LR = 0.2  # with .5, a try with six hidden layers did not end in time
TARGET, MOST = 0.92, 1500
WEIGHTS = "PyTorch's weights", "He's weights"


def run(scale: Scale) -> Report:
    """The slowdown of optimisers and depths, and the coherence of gradients."""
    late = STALENESS if not scale.quick else (0, 4)
    columns = ["iterations, s = 0", *(f"s = {s}" for s in late[1:])]
    tables, checks = list[Table](), list[Check]()
    at = late.index(LATE) if LATE in late else -1
    for he, weights in enumerate(WEIGHTS):
        rows = {
            name: _slowdowns(scale, 1, optimizer, late, he=bool(he))
            for name, optimizer in OPTIMIZERS.items()
        }
        slow = {name: cells[at] for name, cells in rows.items()}
        for name, expected in EXPECTED.items():
            rows[name][at] = rows[name][at]._replace(expected=str(expected))
        title = f"Slowdown by staleness s, one hidden layer, {weights}"
        tables.append(Table(title, columns, rows))
        checks += [
            at_most(
                f"{weights}: slowdown of SGD at s = {LATE}", average(slow["sgd"]), 1.6
            ),
            at_least(
                f"{weights}: slowdown of momentum at s = {LATE}, times that of SGD",
                ratio(slow["momentum"], slow["sgd"]),
                2.0,
                known="momentum suffers later with these weights" if he else "",
            ),
        ]
    gentle = OPTIMIZERS["sgd"]._replace(lr=DEEP_LR)
    deep = {
        f"{depth} hidden": _slowdowns(scale, depth, gentle, (0, LATE), he=True)
        for depth in (DEPTHS if not scale.quick else (1,))
    }
    deeper = pairwise(cells[-1] for cells in deep.values())
    grows = [difference(more, less) for less, more in deeper]
    return Report(
        number=8,
        title="Staleness costs most with momentum, and more in deeper networks",
        source="Dai et al., ICLR 2019, arXiv 1810.03264",
        tables=[
            *tables,
            Table(
                f"Slowdown by the number of hidden layers, SGD with lr {DEEP_LR:g}",
                ["iterations, s = 0", f"s = {LATE}"],
                deep,
            ),
            _coherence(scale),
        ],
        checks=[
            *checks,
            *(
                at_least("least growth of the slowdown by depth", least, 1e-9)
                for least in [*sorted(grows)][:1]
            ),
        ],
    )


def _slowdowns(
    scale: Scale, depth: int, optimizer: Optimizer, late: tuple[int, ...], *, he: bool
) -> list[Cell]:
    """Iterations without staleness, and then the slowdown of each staleness."""
    row = Row(f"{depth} hidden", scale.of(MOST, 40))
    list(row.fill(lambda seed: _problem(depth, seed, he), optimizer, late, scale.seeds))
    first = row.iterations(0)
    budget = None if row.most > max(first) else 0.0
    return [
        Cell(first, budget=float(row.most)),
        *(Cell(row.slowdowns(s).tolist(), budget=budget) for s in late[1:]),
    ]


def _coherence(scale: Scale) -> Table:
    """Returns the table of μ of SGD, averaged over the iterations to the target."""
    row, rows = Row("sgd", scale.of(MOST, 20)), {}
    late = STALENESS[1:] if not scale.quick else (4,)
    sgd, seeds = OPTIMIZERS["sgd"], scale.seeds
    runs = row.fill(
        lambda seed: _problem(1, seed, True), sgd, late, seeds, with_coherence=True
    )
    list(runs)
    for s in late:
        courses = [row.courses[s, seed].coherence_T for seed in seeds]
        rows[f"s = {s}"] = [
            Cell([float(np.mean(each)) for each in courses]),
            Cell([float(np.mean(each > 0)) for each in courses]),
        ]
    return Table(
        "Gradient coherence of SGD", ("mean μ", "share of iterations with μ > 0"), rows
    )


@cache
def _problem(depth: int, seed: int, he: bool) -> Problem:
    """Returns the digits with a network of so many hidden layers of 32 units."""
    if not find_spec("torch"):
        raise SystemExit("claim 8 needs torch")
    nn = import_module("torch").nn
    torch_workload = import_module("fedtorch").TorchWorkload

    def model() -> Any:
        layers: list[Any] = [nn.Linear(PIXELS, HIDDEN), nn.ReLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
        made = nn.Sequential(*layers, nn.Linear(HIDDEN, CLASSES))
        for layer in made:
            if he and isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        return made

    x, y = digits("train")
    test = digits("test")
    flat = torch_workload(
        model=model,
        loss=nn.CrossEntropyLoss(),
        metrics=lambda logits, y: {"accuracy": (logits.argmax(1) == y).float().mean()},
        train_data=lambda client: (x, y),
    ).flat()

    def accuracy(w_D: Any) -> float:
        return float(flat.evaluate(w_D, test)[0]["accuracy"])

    initial_D = initial_model(flat, seed)
    stacked = flat.stack("cpu")
    return Problem(
        stacked, initial_D, len(y), lambda rows: (x[rows], y[rows]), accuracy, TARGET
    )
