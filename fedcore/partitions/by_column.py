"""Natural clients: whoever produced a row holds it."""

import numpy as np

from fedcore.errors import ConfigError
from fedcore.partitions.base import Labels, Partition, Parts, remembered


@remembered
def by_column(ids: Labels) -> Partition:
    """The rows of each distinct id, in the order of the sorted ids.

    Example:
        >>> [part.tolist() for part in by_column(["b", "a", "b"])]
        [[1], [0, 2]]
    """
    if not len(ids):
        raise ConfigError("by_column needs at least one row")
    names, owner_R = np.unique(np.asarray(ids), return_inverse=True)
    return Parts(owner_R, len(names))
