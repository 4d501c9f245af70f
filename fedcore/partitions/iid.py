"""Independent and identically distributed: a shuffle, cut into equal parts."""

from functools import lru_cache

import numpy as np

from fedcore.partitions.base import (
    REMEMBERED,
    Labels,
    Partition,
    Parts,
    check_clients,
    even_sizes,
    owners,
)
from fedcore.rng import Key


def iid(y: Labels, *, clients: int, seed: int = 0) -> Partition:
    """Gives clients random parts of equal sizes.

    Args:
        y: the label of each row; only their number matters.
        clients: the number of clients.
        seed: of the shuffle.

    Returns:
        The rows of each client, ascending; sizes differ by at most one.

    Raises:
        ConfigError: there are fewer rows than clients.
    """
    return _shuffle(len(y), clients, seed)


@lru_cache(REMEMBERED, typed=True)
def _shuffle(rows: int, clients: int, seed: int) -> Partition:
    check_clients(rows, clients)
    order = Key.root(seed).fold_in("iid").generator().permutation(rows)
    owner_R = np.empty(rows, np.int64)
    owner_R[order] = owners(even_sizes(rows, clients))
    return Parts(owner_R, clients)
