"""DS-Sync: the mean of the updates of each group, and of all of them.

Wang, Zhang, Yang, Xia, Chen, Tan, "Divide-and-Shuffle Synchronization for Distributed
Machine Learning", arXiv 2007.03298. Client algorithm ``ds_sync`` says what is known of
the paper, and which group a client is in. Its updates are u_i = W - x_i with the
client's model x_i. A group's model becomes M_k = mean of x_i over its members, and the
public model the mean over all clients, so

    W' = W - mean(u),    d_k = M_k - W' = mean(u) - mean of u over group k.

So W' is the mean of all clients' models, weighed as the recipe weighs updates, and the
mean of the d_k, each weighed by its members, is zero. A group without an update in this
round gets the public model, d_k = 0.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution
from fedcore.config import Roles
from fedcore.params import ParamSpec
from fedcore.typing import Vector


class Sums(NamedTuple):
    """The sums of a version so far, by group."""

    updates_GD: npt.NDArray[np.float32]
    """Σ λ·n·u."""
    samples_G: npt.NDArray[np.float64]
    """Σ n."""


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
        return Aggregator(self._empty, self._accumulate, self._finalize)

    def _empty(self, dim: int) -> Sums:
        if self.groups > 1:
            dim //= 1 + self.groups
        return Sums(np.zeros((self.groups, dim), np.float32), np.zeros(self.groups))

    def _accumulate(self, sums: Sums, update: Contribution) -> Sums:
        share, group = update.weight * update.samples, 0
        if self.groups == 1:
            payloads.add(update.payload, sums.updates_GD[0], share)
        else:  # they average once the update is in, so with the next version
            group = self.client.group_of(*update.place, update.base + 1)
            dim = sums.updates_GD.shape[-1]
            update_D = payloads.decode(update.payload)[:dim]
            sums.updates_GD[group] += np.float32(share) * update_D
        sums.samples_G[group] += update.samples
        return sums

    def _finalize(self, sums: Sums, samples: float) -> Vector:
        mean_D: Vector = sums.updates_GD.sum(axis=0) / np.float32(samples)
        if self.groups == 1:
            return mean_D
        beside = [
            mean_D - total_D / np.float32(count) if count else np.zeros_like(mean_D)
            for total_D, count in zip(*sums, strict=True)
        ]
        agg_D: Vector = np.concatenate([mean_D, *beside])
        return agg_D
