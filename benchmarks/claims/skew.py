"""Claim 21: clients find by themselves how much their data make them exchange.

Hsieh, Phanishayee, Mutlu, Gibbons, "The Non-IID Data Quagmire of Decentralized Machine
Learning", ICML 2020: SkewScout communicates little where sites' data are similar, and
much where they differ, and keeps the accuracy. Five sites of the digits; a share of the
images (the skew) is divided by label, two classes a site, and the rest at random.
Rounds of 5 local steps on the sites' own copies of the model. θ is the threshold T of
Gaia's filter, .02 to 1. It is fixed, or the controller ``skew_scout`` chooses it every
fifth round on about 200 of a site's training images.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

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
)
from benchmarks.claims.setup import digits
from fedcore.controllers import Report as ClientReport
from fedcore.controllers import SkewScout
from fedcore.controllers.skew_scout import Search
from fedcore.coordinator.events import Decided
from fedcore.rng import Key
from fedcore.typing import JSON, Indices, State
from fedcore.workload import Client
from fedtorch import TorchWorkload
from fedview.results import Results

SITES, SAMPLE, EVERY = 5, 200, 5
SKEWS = (0.0, 0.4, 0.8, 1.0)
LEAST = 0.02  # the most expensive threshold
THRESHOLDS = (0.02, 0.04, 0.1, 0.2, 0.4, 1.0)
SEARCHED = "skew_scout"


class Study(NamedTuple):
    """Labelled samples at sites, and how they are learnt."""

    labels: Callable[[], Indices]  # of all training samples, (N,)
    # Of the rows of each site, and the function with which it evaluates models.
    workload: Callable[[Sequence[Indices], Callable[[Client], Any]], TorchWorkload]
    sample: Callable[[Indices], Any]  # some training samples and their labels
    client: JSON  # its algorithm
    versions: int


@contextmanager
def watched() -> Iterator[list[float]]:
    """Writes down the thresholds that the controllers give to tasks, in order."""
    given: list[float] = []
    observe = SkewScout._observe

    def writes_down(self: SkewScout, state: State, report: ClientReport) -> Search:
        if report.message is not None:
            given.append(LEAST / self.ordered[Search(*state).level])
        return observe(self, state, report)

    with patch.object(SkewScout, "_observe", writes_down):
        yield given


class Found(NamedTuple):
    """The accuracy, the kilobytes and the threshold of one run."""

    accuracy: float  # the mean of the last five evaluations
    kilobytes: float  # of all updates
    threshold: float  # the geometric mean in the second half of the run


def run(scale: Scale) -> Report:
    """Measures fixed thresholds and the search, for each skew."""
    return studied(DIGITS, SKEWS, scale)


def studied(study: Study, skews: Sequence[float], scale: Scale) -> Report:
    """Measures fixed thresholds and the search, for each skew of a study."""
    study = study._replace(versions=scale.of(study.versions, 4 * EVERY))
    columns = ("accuracy", "kB up", "threshold")
    tables, checks, chosen = [], [], []
    for skew in skews:
        rows = {
            str(name): [
                Cell(values)
                for values in zip(
                    *(measured(study, skew, name, seed) for seed in scale.seeds),
                    strict=True,
                )
            ]
            for name in (*THRESHOLDS, SEARCHED)
        }
        tables.append(Table(f"skew {skew:g}", columns, rows))
        fixed = (rows[str(threshold)][0] for threshold in THRESHOLDS)
        best = max(fixed, key=lambda cell: cell.mean)
        lost = difference(best, rows[SEARCHED][0])
        chosen.append(rows[SEARCHED][2])
        checks.append(at_most(f"skew {skew:g}, below the best fixed", lost, 0.02))
    falls = [
        at_least(
            f"skew {fewer:g} to {more:g}, the threshold falls by",
            difference(before, after),
            0,
        )
        for (fewer, before), (more, after) in pairwise(zip(skews, chosen, strict=True))
    ]
    return Report(
        number=21,
        title="Clients exchange as much as their data make them",
        source="Hsieh et al., The Non-IID Data Quagmire, ICML 2020",
        tables=tables,
        checks=[*falls, *checks],
    )


def measured(study: Study, skew: float, theta: float | str, seed: int) -> Found:
    """Runs with a fixed threshold, or with the search."""
    threshold = theta if isinstance(theta, float) else LEAST
    inner = {"kind": "gaia", "threshold": threshold, "decay": "none"}
    algorithm: dict[str, JSON] = {
        "kind": "fed_avg",
        "buffer": SITES,
        "client": study.client,
        "uplink": {"kind": "error_feedback", "own_view": True, "inner": inner},
    }
    if isinstance(theta, str):
        levels = [LEAST / each for each in THRESHOLDS]
        scout = {"kind": theta, "levels": levels, "every": EVERY}
        algorithm["controllers"] = [scout]
    with watched() as given, tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(
            {
                "seed": seed,
                "algorithm": algorithm,
                "evaluate": {"every_versions": EVERY},
                "stop": {"versions": study.versions},
                "simulate": {"clients": SITES},
            },
            workload(study, skew, seed),
            folder=Path(folder) / "run",
        )
        return _found(results, given or [threshold])


def _found(results: Results, given: Sequence[float]) -> Found:
    nbytes = sum(r.nbytes for r in results.of(Decided))
    accuracy = float(np.mean(results.central["accuracy"][-5:]))
    late = np.log(given[len(given) // 2 :])
    return Found(accuracy, nbytes / 1000, float(np.exp(late.mean())))


def parts(y: Indices, skew: float, seed: int) -> list[Indices]:
    """The rows of each site, of labels y (N,): a share by label, the rest at random."""
    rng = Key.root(seed).fold_in("skew").generator()
    order = rng.permutation(len(y))
    sorted_out = round(skew * len(y))
    by_label, rest = order[:sorted_out], order[sorted_out:]
    return [
        np.concatenate([by_label[y[by_label] // 2 == site], rest[site::SITES]])
        for site in range(SITES)
    ]


def workload(study: Study, skew: float, seed: int) -> TorchWorkload:
    """Returns the samples at five sites as a workload."""
    own = parts(study.labels(), skew, seed)

    def sample(client: Client) -> Any:
        rows = own[client.index]
        return study.sample(rows[:: max(1, len(rows) // SAMPLE)])

    return study.workload(own, sample)


def _sample(rows: Indices) -> Any:
    x, y = digits("train")
    return x[rows], y[rows]


DIGITS = Study(
    labels=lambda: digits("train")[1],
    workload=lambda own, sample: perceptron(own, valid_data=sample),
    sample=_sample,
    client={"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 16},
    versions=200,
)
