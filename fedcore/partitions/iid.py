"""Independent and identically distributed: a shuffle, cut into equal parts."""

import numpy as np

from fedcore.partitions.base import Labels, Partition, check_clients
from fedcore.rng import Key


def iid(y: Labels, *, clients: int, seed: int = 0) -> Partition:
    """Random parts whose sizes differ by at most one."""
    check_clients(len(y), clients)
    order = Key.root(seed).fold_in("iid").generator().permutation(len(y))
    return [np.sort(part) for part in np.array_split(order, clients)]
