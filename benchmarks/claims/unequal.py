"""Claims 23 and 26: clients that do less work, or take part less often, than others.

Twenty clients hold two shards of the digits each. Clients with more than 40 % of their
images in the classes 0, 1 and 2 are the rare ones: they complete 1 of 5 local epochs,
or they seldom take part. Real coordinator, real participants, uncompressed. "Loss" is
that of all training images, the objective in which every image has the same weight;
recall is that of the classes 0 to 2 on the test images. The experiment draws the
cohorts, which are the same for every row.

Claim 23: Ruan, Zhang, Liang, Joe-Wong, AISTATS 2021: scheme C removes the bias of
unequal work, B does not. Claim 26: FedNova (Wang et al., NeurIPS 2020) removes the
inconsistency of the objective that FedAvg has with unequal steps; MIFA (Gu et al.,
NeurIPS 2021) the bias of availability that depends on the data.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
from benchmarks.claims.setup import Federation, digits
from fedcore import aggregators, recipes
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import FedDyn, LocalSGD, Scaffold
from fedcore.partitions import Partition, shards

CLIENTS, COHORT, EPOCHS, BATCH, LR = 20, 8, 5, 16, 0.05
RARE = range(3)
MUCH = 0.4  # of a rare client's images
SLOW = 1 / EPOCHS  # the share of the work that rare clients complete
SELDOM = 0.1  # how much less often than others rare clients take part
PLAIN = LocalSGD(lr=LR, epochs=EPOCHS, batch=BATCH)
Configs = Mapping[str, AlgorithmConfig]


class Found(NamedTuple):
    """The metrics of a federation's last model."""

    recall: float
    accuracy: float
    loss: float


class Unequal(Federation):
    """A federation in rounds, in which rare clients do a share of their work."""

    def __init__(
        self, config: AlgorithmConfig, parts: Partition, seed: int, work: float
    ) -> None:
        super().__init__(config, parts, seed)
        y = digits("train")[1]
        share_N = [float(np.isin(y[rows], list(RARE)).mean()) for rows in parts]
        self.rare_N: npt.NDArray[np.bool_] = np.array(share_N) > MUCH
        self._work_N = np.where(self.rare_N, work, 1.0)

    def train(self, index: int) -> bool:
        """Trains one client for its share of the work."""
        one = self.trainees[index]
        one.state = replace(one.state, work=float(self._work_N[index]))
        return super().train(index)

    def round_of(self, cohort: list[int]) -> None:
        """Makes one version, trained by these clients."""
        self._at += 1.0
        for index in cohort:
            self.pull(index)
        for index in cohort:
            assert self.train(index)
            self.push(index)

    def found(self) -> Found:
        """Returns recall of rare classes, accuracy and loss of the public model."""
        public_D, quality = self.coordinator.state.published.public_D, self.quality()
        model_D = public_D[: self.model.spec.dim]
        loss = self.model.quality(model_D, *digits("train")).loss
        return Found(quality.recall(RARE), quality.accuracy, loss)


def train(
    config: AlgorithmConfig, rounds: int, seed: int, *, work: float, chance: float
) -> Found:
    """Trains a federation.

    Args:
        config: with the number of clients in a round as its buffer.
        rounds: how many there are.
        seed: of the partition, the model, and who takes part.
        work: the share of their work that rare clients complete.
        chance: how often rare clients take part, as a share of how often others do.
    """
    y = digits("train")[1]
    rng = np.random.default_rng([seed, 26])
    made = Unequal(config, shards(y, clients=CLIENTS, seed=seed), seed, work)
    chance_N = np.where(made.rare_N, chance, 1.0)
    chance_N /= chance_N.sum()
    for _ in range(rounds):
        size = config.buffer
        made.round_of(rng.choice(CLIENTS, size, replace=False, p=chance_N).tolist())
    return made.found()


def table(
    title: str,
    configs: Configs,
    rounds: int,
    scale: Scale,
    *,
    work: float = 1.0,
    chance: float = 1.0,
) -> Table:
    """Returns a table with one row for each config."""
    rows = {
        name: [
            Cell([float(value) for value in values])
            for values in zip(
                *(
                    train(config, rounds, seed, work=work, chance=chance)
                    for seed in scale.seeds
                ),
                strict=True,
            )
        ]
        for name, config in configs.items()
    }
    columns = f"recall 0-2 @{rounds}", f"accuracy @{rounds}", f"loss @{rounds}"
    return Table(title, columns, rows)


def recipe(kind: type[AlgorithmConfig], cohort: int, **more: object) -> AlgorithmConfig:
    """Returns a recipe of rounds; the experiment draws their clients."""
    settings = {"client": PLAIN, **more}
    return kind.model_validate(
        {"buffer": cohort, "synchronous": False, "staleness_limit": 0, **settings}
    )


def participation(scheme: str) -> AlgorithmConfig:
    """Returns FedAvg with the coefficients of one scheme."""
    aggregator = aggregators.FlexibleParticipation.model_validate({"scheme": scheme})
    return recipe(recipes.FlexibleParticipation, COHORT, aggregator=aggregator)


def run_flexible(scale: Scale) -> Report:
    """Measures claim 23: coefficients for clients that work less."""
    rounds = scale.of(40, 2)
    configs = {
        "A: whole work alone": participation("A"),
        "B: all alike": participation("B"),
        "C: by the share, cap 5": participation("C"),
        "FedNova": recipe(recipes.FedNova, COHORT),
    }
    unequal = table("Rare clients do 1 of 5 epochs", configs, rounds, scale, work=SLOW)
    whole = {"whole work, for comparison": participation("B")}
    equal = table("All do 5 epochs", whole, rounds, scale)
    a, b, c, _ = (cells[0] for cells in unequal.rows.values())
    return Report(
        number=23,
        title="Less work that counts for more keeps the classes of slow clients",
        source="Ruan, Zhang, Liang, Joe-Wong, AISTATS 2021",
        tables=[unequal, equal],
        checks=[
            at_least("recall of C above that of B", difference(c, b), 0.02),
            at_least("recall of B above that of A", difference(b, a), 0.02),
        ],
    )


def methods(cohort: int) -> Configs:
    """Returns FedAvg and the methods that are to be better, by name."""
    length = {"lr": LR, "epochs": EPOCHS, "batch": BATCH}
    return {
        "FedAvg": recipe(recipes.FedAvg, cohort),
        "FedNova": recipe(recipes.FedNova, cohort),
        "SCAFFOLD": recipe(recipes.Scaffold, cohort, client=Scaffold(**length)),
        "FedDyn, α = .1": recipe(
            recipes.FedDyn, cohort, client=FedDyn(alpha=0.1, **length)
        ),
        "FedDyn, α = .01": recipe(
            recipes.FedDyn, cohort, client=FedDyn(alpha=0.01, **length)
        ),
        "MIFA": recipe(recipes.MIFA, cohort, weigh_by="samples"),
        "CA2FL": recipe(recipes.CA2FL, cohort, weigh_by="samples"),
    }


def run_methods(scale: Scale) -> Report:
    """Measures claim 26: methods for clients that work less or are seldom there."""
    rounds = scale.of(40, 2)
    slow = table(
        "All 20 take part; rare clients do 1 of 5 epochs",
        methods(CLIENTS),
        rounds,
        scale,
        work=SLOW,
    )
    seldom = table(
        "8 of 20 take part, rare clients a tenth as often; all do 5 epochs",
        methods(COHORT),
        rounds,
        scale,
        chance=SELDOM,
    )
    loss = {name: cells[2] for name, cells in slow.rows.items()}
    recall = {name: cells[0] for name, cells in seldom.rows.items()}
    return Report(
        number=26,
        title="Unequal work and availability bias FedAvg; FedNova and MIFA do not",
        source="Wang et al., NeurIPS 2020; Gu et al., NeurIPS 2021",
        tables=[slow, seldom],
        checks=[
            at_most(
                "unequal work: loss with FedNova over FedAvg",
                ratio(loss["FedNova"], loss["FedAvg"]),
                0.9,
            ),
            at_least(
                "rarely there: recall with MIFA above FedAvg",
                difference(recall["MIFA"], recall["FedAvg"]),
                0.05,
            ),
        ],
    )
