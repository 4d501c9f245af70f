"""The parity of digits, dealt out among all clients: at random, or by the digits."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from benchmarks.claims import parity_app
from benchmarks.claims.parity_app import Floats, samples
from fedcore.partitions import Partition, dirichlet, iid, shards
from fedcore.workload import Client
from fedrun.data import digits

Deal = Callable[..., Partition]


@cache
def parts(deal: Deal, clients: int) -> Partition:
    """Returns the rows of each client."""
    return deal(np.asarray(digits("train")[1]), clients=clients, seed=0)


def train_data(deal: Deal, client: Client) -> tuple[Floats, Floats]:
    """Returns the samples of a client."""
    x_ND, y_N = samples()
    rows = parts(deal, client.count)[client.index]
    return x_ND[rows], y_N[rows]


DIRICHLET = partial(dirichlet, alpha=0.3)
at_random = replace(parity_app.workload, train_data=partial(train_data, iid))
two_shards = replace(parity_app.workload, train_data=partial(train_data, shards))
by_dirichlet = replace(parity_app.workload, train_data=partial(train_data, DIRICHLET))
