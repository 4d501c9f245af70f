"""MIFA: the mean of all clients' last updates, whether they are there or not.

Gu, Huang, Zhang, Huang, "Fast Federated Learning in the Presence of Arbitrary Device
Unavailability", NeurIPS 2021, arXiv 2106.04159, Algorithm 1: the server keeps the last
update G_i of each client, and a version moves the model by the mean of all of them. So
clients count alike, however often they are there.

In the paper all clients are there in the first round. Here the mean is over the clients
that were heard of so far, so that a run need not wait for all. It weighs them by the
samples and staleness weights of their last updates; the paper weighs all alike. The
last update of a client that has left stays. The paper's G_i is divided by the learning
rate, which is the same as long as the rate is.

Compared with the authors' code (github.com/hmgxr128/MIFA_code, ``fdu.py``), where all
clients count alike and nothing is averaged before all were heard of; the paper's text
was not at hand.
"""

from typing import Literal, NamedTuple

import numpy as np

from fedcore.aggregators._last_updates import LastUpdates, Messages, pack
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution
from fedcore.params import ParamSpec
from fedcore.typing import Vector


class Memory(NamedTuple):
    """The server's memory of the clients."""

    updates: LastUpdates
    """G of all clients, with the shares λ·n."""
    samples: dict[str, float]
    """n by client."""
    total: float
    """Σ n of all clients."""


class MIFA(AggregatorConfig):
    """The mean of the last updates of all clients."""

    kind: Literal["mifa"] = "mifa"

    def build(self) -> Aggregator:
        """Returns the aggregator for a model of one tensor."""
        return _Remembering(Messages(None)).aggregator()

    def build_for(self, spec: ParamSpec) -> Aggregator:
        """Returns the aggregator for this model; messages need its tensors' sizes."""
        return _Remembering(Messages(spec.sizes)).aggregator()


class _Remembering(NamedTuple):
    messages: Messages

    def aggregator(self) -> Aggregator:
        return Aggregator(_empty, self._accumulate, _finalize, carry=_keep)

    def _accumulate(self, memory: Memory, update: Contribution) -> Memory:
        client, share = update.client, update.weight * update.samples
        message = pack(update.payload)
        updates = self.messages.replace(memory.updates, client, message, share)
        total = memory.total + update.samples - memory.samples.get(client, 0.0)
        memory.samples[client] = update.samples
        return memory._replace(updates=updates, total=total)


def _empty(dim: int) -> Memory:
    return Memory(LastUpdates.none(dim), {}, 0.0)


def _keep(memory: Memory) -> Memory:
    return memory


def _finalize(memory: Memory, samples: float) -> Vector:
    return memory.updates.total_D / np.float32(memory.total)
