"""The contract of partitioners: labels in, the rows of each client out.

A partitioner is a pure function of its arguments: every client can compute the
whole partition and take its own part.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import Indices

Partition = list[Indices]  # the rows of each client, ascending; no row twice
Labels = npt.NDArray[np.generic] | Sequence[int] | Sequence[str]


def check_clients(rows: int, clients: int) -> None:
    """Raises ConfigError if there cannot be a row for each client."""
    if clients < 1:
        raise ConfigError(f"a partition needs at least 1 client, got {clients}")
    if clients > rows:
        raise ConfigError(f"{rows} rows cannot be shared out among {clients} clients")


def deal_shards(y: Labels, clients: int, per_client: int, seed: int) -> Partition:
    """Cuts the rows, sorted by label, into equal shards and deals them at random."""
    check_clients(len(y), clients)
    count = clients * per_client
    if not 1 <= per_client <= len(y) // clients:
        raise ConfigError(
            f"{len(y)} rows cannot be cut into {clients} times {per_client} shards"
        )
    pieces = np.array_split(np.argsort(np.asarray(y), kind="stable"), count)
    order = Key.root(seed).fold_in("shards").generator().permutation(count)
    return [
        np.sort(np.concatenate([pieces[i] for i in mine]))
        for mine in order.reshape(clients, per_client)
    ]
