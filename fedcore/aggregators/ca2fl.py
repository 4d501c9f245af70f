"""CA2FL: an update is calibrated by the last one of its client.

Wang, Cao, Wu, Chen, Chen, "Tackling the Data Heterogeneity in Asynchronous Federated
Learning with Cached Update Calibration", ICLR 2024, Algorithm 2: the server caches the
last update h_i of each client, zero at first. With h the mean of all n clients' h_i, a
version moves the model by v = h + mean over its updates of (Δ_i - h_i), and then h_i
becomes Δ_i. So clients that are late or seldom there count in every version.

The cache holds updates as they came, in their messages' own formats. Staleness and
samples weigh the differences Δ_i - h_i; the paper weighs all alike.
"""

from typing import Literal, NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.aggregators._last_updates import (
    LastUpdates,
    Messages,
    Packed,
    pack,
)
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution
from fedcore.params import ParamSpec
from fedcore.typing import Vector


class Cache(NamedTuple):
    """The server's memory of the clients, and the sum of a version so far."""

    difference_D: Vector
    """Σ λ·n·(Δ_i - h_i)."""
    known: LastUpdates
    """h_i of all clients."""
    clients: int
    """n, the number of clients that take part."""
    next: dict[str, Packed]
    """The updates of this version, which become h_i."""


class CA2FL(AggregatorConfig):
    """The mean of all clients' last updates, corrected by those that are new."""

    kind: Literal["ca2fl"] = "ca2fl"

    def build(self) -> Aggregator:
        """Returns the aggregator for a model of one tensor."""
        return _Calibration(Messages(None)).aggregator()

    def build_for(self, spec: ParamSpec) -> Aggregator:
        """Returns the aggregator for this model; messages need its tensors' sizes."""
        return _Calibration(Messages(spec.sizes)).aggregator()


class _Calibration(NamedTuple):
    messages: Messages

    def aggregator(self) -> Aggregator:
        return Aggregator(_empty, self._accumulate, _finalize, carry=self._carry)

    def _accumulate(self, cache: Cache, update: Contribution) -> Cache:
        share = update.weight * update.samples
        payloads.add(update.payload, cache.difference_D, share)
        before = cache.known.last.get(update.client)
        if before is not None:
            self.messages.add(before, cache.difference_D, -share)
        cache.next[update.client] = pack(update.payload)
        return cache._replace(clients=max(update.clients, len(cache.known.last)))

    def _carry(self, cache: Cache) -> Cache:
        """Returns the cache with which the next version begins."""
        known = cache.known
        for client, message in cache.next.items():
            known = self.messages.replace(known, client, message, 1.0)
        difference_D = np.zeros_like(cache.difference_D)
        return cache._replace(difference_D=difference_D, known=known, next={})


def _empty(dim: int) -> Cache:
    return Cache(np.zeros(dim, np.float32), LastUpdates.none(dim), 0, {})


def _finalize(cache: Cache, samples: float) -> Vector:
    mean_D = cache.difference_D / np.float32(samples)
    if cache.clients:
        mean_D += cache.known.total_D / np.float32(cache.clients)
    return mean_D
