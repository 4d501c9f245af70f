"""Claim 20: sites that send only significant changes finish sooner over slow links.

Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI
2017: 1.8 to 53.5 times faster than systems that exchange all changes over wide-area
links. Three simulated sites with a third of the digits each, drawn at random, train the
recipe ``gaia`` on a virtual clock, one step of 0.1 s at a time over links of about 0.05
Mbit/s (log-normal, sigma 0.5). A model takes 1.5 s there, so exchanging all of it takes
some 30 times as long as computing; in the paper wide-area links slow such systems down
up to 53.7 times.

Bytes are those of messages in both directions until the public model first reaches the
target.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

import latecomer
from benchmarks.claims.perceptron import perceptron
from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    difference,
    ratio,
)
from benchmarks.claims.setup import digits
from fedcore.coordinator.events import Decided, Leased
from fedcore.partitions import iid
from fedcore.typing import JSON
from fedtorch import TorchWorkload
from fedview.results import Results

SITES, TARGET = 3, 0.95
EXACT: JSON = {"kind": "identity"}


def filtered(threshold: float, decay: str = "root", *, own_view: bool = True) -> JSON:
    """Returns the recipe's uplink and downlink filters with another threshold."""
    inner = {"kind": "gaia", "threshold": threshold, "decay": decay}
    uplink = {"kind": "error_feedback", "inner": inner, "own_view": own_view}
    return {"uplink": uplink, "downlink": inner}


FULL, PAPERS, SMALL = "full exchange, in step", "Gaia, T = .01", "Gaia, T = .2"
VARIANTS: dict[str, JSON] = {
    FULL: {"uplink": EXACT, "downlink": EXACT, "ahead": 0},
    "full exchange, 2 steps ahead": {"uplink": EXACT, "downlink": EXACT},
    "full exchange, nobody waits": {
        "uplink": EXACT,
        "downlink": EXACT,
        "ahead": None,
    },
    "Gaia, T = .01/√t": {},
    PAPERS: filtered(0.01, "none"),
    "Gaia, T = .05": filtered(0.05, "none"),
    SMALL: filtered(0.2, "none"),
    "Gaia, T = .2, nobody waits": {**filtered(0.2, "none"), "ahead": None},
    "Gaia, T = .5": filtered(0.5, "none"),
    "Gaia, T = .2, steps begin at W": filtered(0.2, "none", own_view=False),
}


class Reached(NamedTuple):
    """What it took to reach the target, and what came of the whole run."""

    kilobytes: float
    seconds: float
    accuracy: float


class Cells(NamedTuple):
    """The figures of a way over several seeds, each with a value for every seed."""

    kilobytes: Cell
    seconds: Cell
    accuracy: Cell


def run(scale: Scale) -> Report:
    """Measures full exchange and Gaia with several thresholds."""
    versions = scale.of(900, 30)
    rows = {}
    for name, variant in VARIANTS.items():
        found = [measured(variant, versions, seed) for seed in scale.seeds]
        rows[name] = Cells(*map(Cell, zip(*found, strict=True)))
    full, papers, small = rows[FULL], rows[PAPERS], rows[SMALL]
    columns = (f"kB to {TARGET}", f"s to {TARGET}", f"accuracy@{versions}")
    return Report(
        number=20,
        title="Sites that send significant changes only are sooner done",
        source="Hsieh et al., Gaia, NSDI 2017",
        tables=[Table("Three sites, links of 0.05 Mbit/s", columns, rows)],
        checks=[
            at_least(
                "T = .01, times fewer bytes",
                ratio(full.kilobytes, papers.kilobytes),
                5,
                known="steps of a single batch move small parameters by more than 1 %",
            ),
            at_least(
                "T = .01, times as soon", ratio(full.seconds, papers.seconds), 1.8
            ),
            at_most(
                "T = .01, accuracy lost",
                difference(full.accuracy, papers.accuracy),
                0.01,
            ),
            at_least(
                "T = .2, times fewer bytes", ratio(full.kilobytes, small.kilobytes), 5
            ),
            at_least("T = .2, times as soon", ratio(full.seconds, small.seconds), 1.8),
            at_most(
                "T = .2, accuracy lost", difference(full.accuracy, small.accuracy), 0.01
            ),
        ],
    )


def measured(variant: JSON, versions: int, seed: int) -> Reached:
    """Runs one variant; a target not reached counts as the whole run."""
    with tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(
            {
                "seed": seed,
                "algorithm": {
                    "kind": "gaia",
                    "client": {"kind": "local_sgd", "lr": 0.1, "steps": 1, "batch": 32},
                    **variant,
                },
                "evaluate": {"every_versions": 10},
                "stop": {"versions": versions},
                "simulate": {
                    "clients": SITES,
                    "step_seconds": 0.1,
                    "link": {
                        "up_mbit": 0.05,
                        "down_mbit": 0.05,
                        "spread": {"kind": "log_normal", "sigma": 0.5},
                    },
                },
            },
            workload(),
            folder=Path(folder) / "run",
        )
        return _reached(results)


def _reached(results: Results) -> Reached:
    central = results.central
    whole = list(zip(central["version"], central["accuracy"], strict=True))
    first = next((v for v, accuracy in whole if accuracy >= TARGET), whole[-1][0])
    stepped = {r.version: r.at for r in results.records if hasattr(r, "gap_norm")}
    end = stepped[first]
    messages = [r for kind in (Decided, Leased) for r in results.of(kind)]
    evaluators = results.evaluators
    nbytes = sum(r.nbytes for r in messages if r.at <= end and r.cid not in evaluators)
    return Reached(nbytes / 1000, end - results.started, whole[-1][1])


def workload() -> TorchWorkload:
    """Returns the digits, dealt to the sites at random, as a workload."""
    return perceptron(iid(digits("train")[1], clients=SITES, seed=0))
