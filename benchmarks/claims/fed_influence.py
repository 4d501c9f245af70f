"""Claim 10: Fed-Influence estimates how a model would change without one client.

Xue, Niu, Zheng, Tang, Lyu, Wu, Chen, "Toward Understanding the Influence of Individual
Clients in Federated Learning", AAAI 2021, arXiv 2012.10936. Twenty clients of the
digits by a Dirichlet distribution of .5, five in each of 100 rounds, two local steps of
16 samples at a rate of .3. The truth is a run without the client, with the same batches
and cohorts of the others. The estimator is compared with wrong ones, a client whose
labels are flipped (y becomes 9 - y), and a run without the lowest 30 % of the clients.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

import latecomer
from benchmarks.claims.perceptron import perceptron
from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
    difference,
)
from benchmarks.claims.setup import CLASSES, PIXELS, digits
from fedcore.influence.base import Curvature, Curved
from fedcore.partitions import dirichlet
from fedcore.samples import Subset
from fedcore.typing import Array, Indices, Vector
from fedcore.workload import Client
from fedrun.correlation import pearson, spearman
from fedstudies.influence.audit import last_of
from fedstudies.influence.estimate import Settings, estimate
from fedstudies.influence.repetition import Repetition
from fedstudies.influence.schedule import read_schedule
from fedtorch import TorchWorkload

CLIENTS, COHORT, STEPS, LR, ROUNDS, ALPHA = 20, 5, 2, 0.3, 100, 0.5
LOWEST = 0.3  # the share of clients that cleansing leaves out
SOFTMAX, PERCEPTRON = "softmax regression", "perceptron"
HESSIAN, TRUNCATED = "Hessian", "Hessian, LWET"
FISHER, FISHER_TRUNCATED = "Fisher, 50 samples", "Fisher, LWET"
COMBINATORIAL, SEQUENTIAL = "combinatorial term alone", "sequential term alone"
FLAT, WRONG = "no curvature", "wrong sign of the curvature"
ESTIMATORS: dict[str, tuple[Settings, float]] = {
    HESSIAN: (Settings(), 1.0),
    TRUNCATED: (Settings(truncate=True), 1.0),
    FISHER: (Settings("fisher"), 1.0),
    FISHER_TRUNCATED: (Settings("fisher", truncate=True), 1.0),
    FLAT: (Settings(), 0.0),
    WRONG: (Settings(), -1.0),
    COMBINATORIAL: (Settings(sequential=False), 1.0),
    SEQUENTIAL: (Settings(combinatorial=False), 1.0),
}
"""The settings by name, and a factor of the curvature."""


class Found(NamedTuple):
    """One federation: what its clients did to the loss."""

    true: list[float]
    estimated: dict[str, list[float]]
    fip: float
    """The median of ‖ε - ε*‖ / ‖ε*‖ of the exact estimator."""
    accuracy: float
    cleansed: float
    """Accuracy without the lowest clients by the estimate."""


def run(scale: Scale) -> Report:
    """Compares estimated influence with retraining, in three federations."""
    rounds = scale.of(ROUNDS, 3)
    few = [HESSIAN] if scale.quick else list(ESTIMATORS)
    softmax = [federation(SOFTMAX, rounds, seed, few) for seed in scale.seeds]
    deep = [federation(PERCEPTRON, rounds, seed, few) for seed in scale.seeds]
    flipped = [
        federation(SOFTMAX, rounds, seed, [HESSIAN], flips=True) for seed in scale.seeds
    ]

    def correlations(found: list[Found], how: str) -> Cell:
        return Cell([_known(pearson(f.estimated[how], f.true)) for f in found])

    both = {SOFTMAX: softmax, PERCEPTRON: deep}
    rows = {how: [correlations(f, how) for f in both.values()] for how in few}
    planted = [
        Cell([_from_below(f.estimated[HESSIAN]) for f in flipped]),
        Cell([_from_below(f.true) for f in flipped]),
    ]
    convex, other = rows[HESSIAN]
    checks = [
        at_least("Pearson, softmax regression", average(convex), 0.95),
        at_least("the same, as expected", average(convex), 0.99, gates=False),
        at_least("the same, as in the paper", average(convex), 0.986, gates=False),
        at_least(
            "Pearson, perceptron, as in the paper", average(other), 0.796, gates=False
        ),
        at_most("rank from below of the planted client", max(planted[0].values), 1),
        at_most("its true rank from below", max(planted[1].values), 1),
    ]
    if not scale.quick:
        checks += [
            at_most(f"Pearson, {how}", average(rows[how][0]), 0.5)
            for how in (COMBINATORIAL, SEQUENTIAL)
        ]
        checks += [
            at_most(
                f"Pearson, {how}, above the softmax's",
                difference(rows[how][0], convex),
                -0.05,
            )
            for how in (FLAT, WRONG)
        ]
    return Report(
        number=10,
        title="Influence without retraining correlates with leaving clients out",
        source="Xue et al., AAAI 2021",
        tables=[
            Table("Pearson's correlation with the truth", tuple(both), rows),
            Table(
                "The exact estimator, by Spearman and by distance",
                ("Spearman", "median error of ε"),
                {name: [_ranks(f), _errors(f)] for name, f in both.items()},
            ),
            Table(
                f"Rank from below of a client with flipped labels, of {CLIENTS}",
                ("estimated", "true"),
                {SOFTMAX: planted},
            ),
            Table(
                "Accuracy without the lowest 30 % of the clients",
                ("all clients", "cleansed"),
                {
                    SOFTMAX: _accuracies(softmax),
                    PERCEPTRON: _accuracies(deep),
                    f"{SOFTMAX}, one client flipped": _accuracies(flipped),
                },
            ),
        ],
        checks=checks,
        remarks=[
            "The sequential term alone stays zero, since every difference begins with "
            "the combinatorial term; it counts as a correlation of 0."
        ],
    )


def federation(
    kind: str, rounds: int, seed: int, estimators: list[str], *, flips: bool = False
) -> Found:
    """Simulates a federation, estimates all influence, and retrains without each."""
    _, y = digits("train")
    parts = dirichlet(y, clients=CLIENTS, alpha=ALPHA, seed=seed)
    mine = perceptron(parts)
    if kind == SOFTMAX:
        mine = replace(mine, model=partial(nn.Linear, PIXELS, CLASSES))
    if flips:
        mine = with_flipped(mine, parts)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        latecomer.run(config_of(rounds, seed), mine, folder=place)
        again = Repetition(mine, read_schedule(place))
    names = sorted(
        again.schedule.clients, key=lambda n: again.schedule.clients[n].index
    )
    # The client with most samples is the planted one, and comes first.
    if flips:
        names.insert(0, names.pop(largest(parts)))
    last_D = again.schedule.last_D
    loss = loss_at(again, last_D)
    true_CD = np.stack([last_of(again, name).astype(np.float64) for name in names])
    true_CD -= last_D
    exact, found, exact_CD = again.curvature, {}, np.zeros_like(true_CD)
    for how in estimators:
        settings, factor = ESTIMATORS[how]
        again.curvature = exact if factor == 1 else Scaled(exact, factor)
        *_, (_, state) = estimate(again, names, settings)
        found[how] = [loss(eps_D) for eps_D in state.eps_CD]
        if how == HESSIAN:
            exact_CD = state.eps_CD
    order = np.argsort(found[HESSIAN], kind="stable")[: round(LOWEST * CLIENTS)]
    lowest = [names[place] for place in order.tolist()]
    apart_C = np.linalg.norm(exact_CD - true_CD, axis=1)
    size_C = np.linalg.norm(true_CD, axis=1)
    return Found(
        true=[loss(gap_D) for gap_D in true_CD],
        estimated=found,
        fip=float(np.median(apart_C[size_C > 0] / size_C[size_C > 0])),
        accuracy=again.evaluate(last_D)["accuracy"],
        cleansed=again.evaluate(last_of(again, *lowest))["accuracy"],
    )


def config_of(rounds: int, seed: int) -> Mapping[str, Any]:
    """The federation of the claim."""
    return {
        "seed": seed,
        "algorithm": {
            "kind": "fed_avg",
            "buffer": COHORT,
            "client": {"kind": "local_sgd", "lr": LR, "steps": STEPS, "batch": 16},
        },
        "evaluate": {"every_versions": rounds},
        "stop": {"versions": rounds},
        "simulate": {"clients": CLIENTS, "engine": {"kind": "exact"}},
    }


def loss_at(again: Repetition, last_D: Vector) -> Callable[[Array], float]:
    """Returns how the test loss changes when a difference is added to the model."""
    now = again.evaluate(last_D)["loss"]
    return lambda gap_D: again.evaluate(last_D + gap_D)["loss"] - now


def largest(parts: Sequence[Indices]) -> int:
    """The client with most samples."""
    return int(np.argmax([len(part) for part in parts]))


def with_flipped(mine: TorchWorkload, parts: Sequence[Indices]) -> TorchWorkload:
    """Returns the workload whose largest client has labels 9 - y."""
    x, y = digits("train")
    bad = largest(parts)

    def train_data(client: Client) -> Subset:
        labels = CLASSES - 1 - y if client.index == bad else y
        return Subset(x, labels, parts[client.index])

    return replace(mine, train_data=train_data)


class Scaled:
    """A curvature that is wrong by a factor; the gradients are right."""

    def __init__(self, inner: Curvature, factor: float) -> None:
        self._inner, self._factor = inner, factor

    def hessian(self, w_D: Vector, x: Any, y: Any) -> Curved:
        """Returns the right loss and gradient, and a wrong product."""
        found = self._inner.hessian(w_D, x, y)
        factor, product = self._factor, found.product
        if not factor:
            return found._replace(product=np.zeros_like)
        return found._replace(product=lambda v_CD: factor * product(v_CD))

    def check(self, w_D: Vector, x: Any, y: Any) -> None:
        """Accepts its own mistake."""

    def sample_gradients(self, w_D: Vector, x: Any, y: Any, rows_B: Indices) -> Array:
        """Returns the right gradients of samples."""
        return self._inner.sample_gradients(w_D, x, y, rows_B)


def _known(value: float) -> float:
    """A correlation, or 0 where one side does not vary."""
    return 0.0 if math.isnan(value) else value


def _from_below(values: list[float]) -> int:
    """How many clients are as low as the first one, itself among them."""
    return sum(value <= values[0] for value in values)


def _ranks(found: list[Found]) -> Cell:
    return Cell([_known(spearman(f.estimated[HESSIAN], f.true)) for f in found])


def _errors(found: list[Found]) -> Cell:
    return Cell([f.fip for f in found])


def _accuracies(found: list[Found]) -> list[Cell]:
    return [Cell([f.accuracy for f in found]), Cell([f.cleansed for f in found])]
