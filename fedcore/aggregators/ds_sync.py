"""DS-Sync: the mean of the updates of each group, and of all of them.

Wang, Zhang, Yang, Xia, Chen, Tan, "Divide-and-Shuffle Synchronization for Distributed
Machine Learning", arXiv 2007.03298. Client algorithm ``ds_sync`` says what is known of
the paper, and which group a client is in. A client of group a is sent that group's
model M_a = W + d_a, ends at x, and sends Δ = M_a - x; so u = Δ - d_a = W - x. A new
group's model becomes M_k = mean of x over its members, and the public model the mean
over all clients:

    W' = W - mean(u),    d_k = M_k - W' = mean(u) - mean of u over group k.

So W' is the mean of all clients' models, weighed as the recipe weighs updates, and the
mean of the d_k, each weighed by its members, is zero. A group without an update in this
round gets the public model, d_k = 0. The server alone keeps the d_k: messages in both
directions are as long as those of federated averaging.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.aggregators.base import (
    Aggregator,
    AggregatorConfig,
    Contribution,
    Groups,
)
from fedcore.config import Roles
from fedcore.params import ParamSpec
from fedcore.typing import Vector


class Models(NamedTuple):
    """The models of the groups, and the sums of a version so far."""

    beside_GD: npt.NDArray[np.float32]
    """d_k."""
    updates_GD: npt.NDArray[np.float32]
    """Σ λ·n·u of each new group."""
    samples_G: npt.NDArray[np.float64]
    """Σ n of each new group."""


class DSSync(AggregatorConfig):
    """The mean within each group of client algorithm ``ds_sync``."""

    kind: Literal["ds_sync"] = "ds_sync"

    def fits(self, roles: Roles) -> None:
        """Refuses clients that have no groups.

        Raises:
            ValueError: the client algorithm is another one.
        """
        if roles.client.kind != "ds_sync":
            raise ValueError(
                f"aggregator: ds_sync averages the groups of client ds_sync, and the "
                f"client is {roles.client.kind}; take aggregator weighted_mean"
            )

    def build(self) -> Aggregator:
        """Returns the aggregator for one group."""
        return _Grouped(None, 1).aggregator()

    def build_in(self, roles: Roles, spec: ParamSpec) -> Aggregator:
        """Returns the aggregator for the groups of the client algorithm."""
        return _Grouped(roles.client, roles.client.groups).aggregator()


class _Grouped(NamedTuple):
    client: Any
    groups: int

    def aggregator(self) -> Aggregator:
        plain = Aggregator(self._empty, self._accumulate, _finalize)
        if self.groups == 1:
            return plain
        return plain._replace(carry=_carry, groups=Groups(self.client.group_of, _model))

    def _empty(self, dim: int) -> Models:
        zeros_GD = np.zeros((self.groups, dim), np.float32)
        return Models(zeros_GD, zeros_GD.copy(), np.zeros(self.groups))

    def _accumulate(self, models: Models, update: Contribution) -> Models:
        share, group = update.weight * update.samples, 0
        if self.groups > 1:
            # They average once the update is in, so with the next version.
            group = self.client.group_of(update.place, update.base + 1)
            began = self.client.group_of(update.place, update.base)
            models.updates_GD[group] -= np.float32(share) * models.beside_GD[began]
        payloads.add(update.payload, models.updates_GD[group], share)
        models.samples_G[group] += update.samples
        return models


def _finalize(models: Models, samples: float) -> Vector:
    mean_D: Vector = models.updates_GD.sum(axis=0) / np.float32(samples)
    return mean_D


def _carry(models: Models) -> Models:
    """Returns the models of the groups in the next version."""
    mean_D = _finalize(models, float(models.samples_G.sum()))
    beside_GD = np.zeros_like(models.beside_GD)
    for group, count in enumerate(models.samples_G):
        if count:
            beside_GD[group] = mean_D - models.updates_GD[group] / np.float32(count)
    zeros_GD, zeros_G = np.zeros_like(beside_GD), np.zeros_like(models.samples_G)
    return Models(beside_GD, zeros_GD, zeros_G)


def _model(models: Models, public_D: Vector, group: int) -> Vector:
    model_D: Vector = public_D + models.beside_GD[group]
    return model_D
