"""Claim 11, first half: Overlap Local-SGD hides transfers behind the next steps.

Wang, Liang, Joshi, "Overlap Local-SGD: An Algorithmic Approach to Hide Communication
Delays in Distributed SGD", ICASSP 2020, arXiv 2002.09539. The real simulator runs the
recipe against synchronous local SGD: 8 workers with an eighth of the images each; a
step takes 1 + Exp(.2) seconds, and a message, its verdict and a new model take 10
together. The experiment measures the virtual time until the mean loss over all training
images is .05.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.claims.report import Cell, Report, Scale, Table, at_least, ratio
from benchmarks.claims.setup import CLASSES, HIDDEN, PIXELS, digits
from fedsim.api import run as simulate

WORKERS, BATCH, LR = 8, 16, 0.5
LOSSES = (0.2, 0.1, 0.05)
TRANSFERS = 10.0  # seconds; each of four messages takes a quarter
STEP, TAIL = 1.0, 0.2
LONGEST = 8000.0
ROWS: dict[str, tuple[int, dict[str, Any], str]] = {
    "overlap, 8 steps": (8, {"alpha": 0.6}, "153/333/700"),
    "overlap, 8 steps, no momentum": (8, {"alpha": 0.6, "beta": 0.0}, ""),
    "overlap, 8 steps, α = .3": (8, {"alpha": 0.3}, ""),
    "local SGD, 8 steps": (8, {}, ""),
    "local SGD, 20 steps": (20, {}, "204/391/829"),
    "synchronous SGD": (1, {}, "905/1994/4184"),
}


def run(scale: Scale) -> Report:
    """Measures the virtual seconds to three losses, for each method."""
    rows = dict[str, list[Cell]]()
    for name, (steps, settings, expected) in ROWS.items():
        found = [
            times(steps, settings, seed, quick=scale.quick) for seed in scale.seeds
        ]
        before = expected.split("/") if expected else ["", "", ""]
        rows[name] = [
            Cell(column, known, LONGEST)
            for column, known in zip(zip(*found, strict=True), before, strict=True)
        ]
    last = {name: cells[-1] for name, cells in rows.items()}
    ours = last["overlap, 8 steps"]
    local = [cell for name, cell in last.items() if name[:5] == "local"]
    better = min(local, key=lambda cell: cell.mean)
    return Report(
        number=11,
        title="Transfers are hidden behind the next local steps",
        source="Wang, Liang, Joshi, ICASSP 2020, arXiv 2002.09539",
        tables=[
            Table(
                "Virtual seconds to a training loss",
                [f"loss {loss:g}" for loss in LOSSES],
                rows,
            )
        ],
        checks=[
            at_least(
                "synchronous SGD takes times as long",
                ratio(last["synchronous SGD"], ours),
                4,
            ),
            at_least(
                "local SGD of as many steps takes times as long",
                ratio(last["local SGD, 8 steps"], ours),
                1.15,
            ),
            at_least(
                "the better of two local SGDs takes times as long",
                ratio(better, ours),
                1.15,
                known="20 steps a round are as fast here",
            ),
            at_least(
                "the same with α = .3",
                ratio(better, last["overlap, 8 steps, α = .3"]),
                1.15,
                gates=False,
            ),
        ],
    )


def times(
    steps: int, settings: dict[str, Any], seed: int, *, quick: bool = False
) -> list[float]:
    """The virtual time to each loss; the longest where it was not reached."""
    client: dict[str, Any] = {"lr": LR, "steps": steps, "batch": BATCH}
    algorithm: dict[str, Any] = {"buffer": WORKERS, "weigh_by": "updates"}
    if settings:
        client |= {"kind": "overlap_local_sgd", "alpha": settings["alpha"]}
        beta = settings.get("beta", 0.7)
        algorithm |= {
            "kind": "overlap_local_sgd",
            "server": {"kind": "momentum", "lr": 1.0, "beta": beta},
        }
    else:
        client |= {"kind": "local_sgd"}
        algorithm |= {"kind": "fed_avg"}
    # A task of so many steps, in units of as many seconds.
    draws = np.random.default_rng([seed, steps]).gamma(steps, TAIL, 4000)
    config = {
        "algorithm": {**algorithm, "client": client},
        "seed": seed,
        "simulate": {
            "clients": WORKERS,
            "step_seconds": STEP,
            "jitter": {"kind": "empirical", "values": (1 + draws / steps).tolist()},
            "link": {"latency": TRANSFERS / 4, "up_mbit": 1e6, "down_mbit": 1e6},
        },
        "evaluate": {"every_versions": 1},
        "stop": {
            "seconds": 100.0 if quick else LONGEST,
            "target": {"loss": LOSSES[-1]},
        },
    }
    with TemporaryDirectory() as folder:
        central = simulate(
            config, _workload(seed), folder=Path(folder) / "run", progress=False
        ).central
    told = list(zip(central["seconds"], central["loss"], strict=True))
    return [
        min((at for at, loss in told if loss <= goal), default=LONGEST)
        for goal in LOSSES
    ]


def _workload(seed: int) -> Any:
    """The network of the claims, with an eighth of the images on each client."""
    if not find_spec("torch"):
        raise SystemExit("claim 11 needs torch")
    nn = import_module("torch").nn
    x, y = digits("train")
    order = np.random.default_rng(seed).permutation(len(y))
    parts = np.array_split(order, WORKERS)

    def model() -> Any:
        made = nn.Sequential(
            nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        )
        for layer in (made[0], made[2]):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        return made

    return import_module("fedtorch").TorchWorkload(
        model=model,
        loss=nn.CrossEntropyLoss(),
        train_data=lambda client: (x[parts[client.index]], y[parts[client.index]]),
        test_data=lambda: (x, y),
    )
