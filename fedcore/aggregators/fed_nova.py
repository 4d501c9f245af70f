"""FedNova: updates are divided by how many steps they stand for, and then averaged.

Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency Problem in
Heterogeneous Federated Optimization", NeurIPS 2020, arXiv 2007.07481, §5:
x ← x - τ_eff·Σ p_i·Δ_i/a_i with τ_eff = Σ p_i·a_i, where p_i = n_i / Σ n and a_i is how
many plain steps the task of client i stands for (``effort`` of the client algorithm).
So a client that takes more steps does not count for more. With whole tasks of as many
steps for all it is the weighted mean, bit for bit.

The client multiplies Δ_i by A_i/a_i before the compression, where A_i is the a_i of its
whole tasks, and the server divides by A_i. So what a message leaves out comes again
divided by the steps of its own task.

The number of steps is a claim. τ_eff moves all updates, so it takes no more steps of a
client than one with as many samples is given (``pace``). Where tasks are of epochs that
bound follows from the samples, which are a claim as well: set ``samples_cap``.

λ dampens the direction of an update, and not τ_eff. What a leaving client's memory held
has no steps of its own, and counts as it is.
"""

from typing import Literal, NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution, Work
from fedcore.config import Roles
from fedcore.typing import Vector


class Normalised(NamedTuple):
    """The sums of a version so far."""

    direction_D: Vector
    """Σ λ·n·q·(pace of the first update)/A."""
    rest_D: Vector
    """Σ λ·n·q of the messages without steps."""
    first: float
    """The pace of the first update with steps; 0: there is none."""
    paces: float
    """Σ n·pace."""
    samples: float
    """Σ n of the updates with steps."""


class FedNova(AggregatorConfig):
    """τ_eff times the mean of the updates for each step."""

    kind: Literal["fed_nova"] = "fed_nova"

    def fits(self, roles: Roles) -> None:
        """Refuses updates whose steps are not known, or are of earlier tasks as well.

        Raises:
            ValueError: a velocity or a model is kept from task to task, or clients
                choose.
        """
        if roles.client.may_choose:
            raise ValueError(
                "aggregator: fed_nova divides by the steps that a client can have "
                "taken, and does not know those of settings that it chose; leave "
                "may_choose out, and use overrides"
            )
        if roles.client.mixes_tasks:
            raise ValueError(
                "aggregator: fed_nova counts the steps of one task, and an update of "
                f"{roles.client.kind} with these settings holds those of earlier ones; "
                "take local_sgd with keep_momentum: false"
            )

        if roles.client.effort(2) < 1:
            raise ValueError(
                "aggregator: fed_nova divides by what steps add up to, and with this "
                f"lr and pull of {roles.client.kind} they undo one another; take a "
                "lower lr"
            )

    def coefficient(self, work: Work) -> float:
        """Returns A/a."""
        return work.whole / work.effort

    def build(self) -> Aggregator:
        """Returns the aggregator."""
        return Aggregator(_empty, _accumulate, _finalize, needs=frozenset({"pace"}))


def _empty(dim: int) -> Normalised:
    zeros_D = np.zeros(dim, np.float32)
    return Normalised(zeros_D, zeros_D.copy(), 0.0, 0.0, 0.0)


def _accumulate(sums: Normalised, update: Contribution) -> Normalised:
    share, effort = update.weight * update.samples, update.effort
    if not effort:
        payloads.add(update.payload, sums.rest_D, share)
        return sums
    first = sums.first or update.pace
    payloads.add(update.payload, sums.direction_D, share * (first / effort))
    return sums._replace(
        first=first,
        paces=sums.paces + update.samples * update.pace,
        samples=sums.samples + update.samples,
    )


def _finalize(sums: Normalised, samples: float) -> Vector:
    total_D = sums.direction_D
    if sums.samples:  # τ_eff / pace of the first update
        total_D = total_D * np.float32(sums.paces / sums.samples / sums.first)
    return (total_D + sums.rest_D) / np.float32(samples)
