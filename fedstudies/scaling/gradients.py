"""Gradients of the app's own samples and clients at one model, for the batch limit."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fedcore.errors import ConfigError
from fedcore.model import FlatModel
from fedcore.planning.batch_limit import BatchLimit, batch_limit
from fedcore.rng import Key
from fedcore.samples import Samples
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedcore.workload import LoopWorkload, Workload
from fedrun.config import FederationConfig
from fedsim.population import Population

MOST_CLIENTS = 64
MOST_SAMPLES = 512


class Limits(NamedTuple):
    """The limits at one model; None with a reason in words where one is unknown."""

    of_samples: BatchLimit | None
    of_clients: BatchLimit | None
    reasons: list[str]


def limits_at(
    w_D: Vector, model: FlatModel, workload: Workload, config: FederationConfig
) -> Limits:
    """Measures how alike the gradients of samples and of clients are.

    A client's gradient is the mean over as many of its samples as one task uses.

    Args:
        w_D: the model's weights, shape (D,).
        model: computes the gradients.
        workload: with the clients' data.
        config: says how many clients there are, and how a task trains.

    Raises:
        UserCodeError: the user's code raised.
        WorkloadError: a client's data are no samples.
    """
    if isinstance(workload, LoopWorkload):
        why = (
            "the app trains by a loop of its own, so its gradients are unknown, and "
            "with them the batch limit; write gradient= in place of train="
        )
        return Limits(None, None, [why])
    population = Population(config.simulate, config.seed)
    clients = min(population.count, MOST_CLIENTS)
    data = [_samples(workload, population.client(who)) for who in range(clients)]
    at = _Gradients(w_D, model)
    key, reasons = Key.root(config.seed).fold_in("batch-limit"), []
    of_samples = of_clients = None
    if model.spec.in_training is not None:
        reasons.append(
            "the model has batch statistics, so a sample alone has no gradient, and "
            "the limit of samples is unknown"
        )
    else:
        of_samples, unknown = _limit(_of_samples(at, data, key), "samples")
        reasons += unknown
    if len(data) < 2:
        reasons.append(
            "there is one client, and nothing says what a second one would add: set "
            "simulate.clients to 2 or more"
        )
    else:
        of_clients, unknown = _limit(_of_clients(at, data, config, key), "clients")
        reasons += unknown
    return Limits(of_samples, of_clients, reasons)


def _limit(
    gradients: Iterator[Vector], whose: str
) -> tuple[BatchLimit | None, list[str]]:
    try:
        return batch_limit(gradients), []
    except ConfigError as error:
        return None, [f"gradients of {whose}: {error}"]


def _samples(workload: Workload, client: Any) -> Samples:
    whose = f"train_data of {client.name}"
    with user_code(whose):
        return workload.samples(workload.train_data(client), whose)


class _Gradients:
    """Gradients of a model at one point, without the places of its buffers."""

    def __init__(self, w_D: Vector, model: FlatModel) -> None:
        self._model, self._dim = model, model.spec.dim
        local_L = model.local_L
        self._w = w_D if local_L is None else np.concatenate([w_D, local_L])
        self._buffers = model.spec.in_training

    def mean(self, samples: Samples, rows: Any) -> Vector:
        """The mean gradient over these rows."""
        with user_code("the gradient"):
            _, g = self._model.gradient(self._w, *samples.batch(np.asarray(rows)))
        g_D = np.array(g[: self._dim])
        if self._buffers is not None:  # it holds their next values there
            g_D[self._buffers] = 0
        return g_D


def _of_samples(at: _Gradients, data: list[Samples], key: Key) -> Iterator[Vector]:
    """Gradients of single samples, drawn from those of all clients."""
    places = [(who, row) for who, own in enumerate(data) for row in range(len(own))]
    count = min(len(places), MOST_SAMPLES)
    drawn = key.fold_in("samples").generator().choice(len(places), count, replace=False)
    for place in drawn.tolist():
        who, row = places[place]
        yield at.mean(data[who], [row])


def _of_clients(
    at: _Gradients, data: list[Samples], config: FederationConfig, key: Key
) -> Iterator[Vector]:
    """The gradient of each client."""
    client = config.algorithm.client
    for who, own in enumerate(data):
        wanted = client.used_by(len(own), client.steps_of(len(own), 1.0, None))
        generator = key.fold_in("client", who).generator()
        rows = generator.permutation(len(own))[: min(wanted, len(own))]
        yield at.mean(own, rows)
