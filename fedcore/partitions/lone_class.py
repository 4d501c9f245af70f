"""One client alone holds a class; the others hold shards of the rest.

The straggler experiment of Damaskinos et al., "FLeet", Middleware 2020, §3.2 (in
the authors' code, ``cppNN_backend.initSampler``): if the lone client is late, only
its late updates can teach the class.
"""

import numpy as np

from fedcore.errors import ConfigError
from fedcore.partitions.base import Labels, Partition, Parts, deal_shards, memoise


@memoise
def lone_class(
    y: Labels, *, clients: int, label: int = 0, per_client: int = 2, seed: int = 0
) -> Partition:
    """Gives client 0 all rows of one label, and the others random shards of the rest.

    Args:
        y: the label of each row.
        clients: the number of clients, 2 or more.
        label: the label that client 0 alone has.
        per_client: the number of shards that each of the others has.
        seed: of the draw.

    Returns:
        The rows of each client, ascending.

    Raises:
        ConfigError: no row has the label, or there are too few clients or rows.
    """
    labels = np.asarray(y)
    rest = np.flatnonzero(labels != label)
    if clients < 2 or len(rest) == len(labels):
        raise ConfigError(f"lone_class needs 2 clients and rows of label {label}")
    owner_R = np.zeros(len(labels), np.int64)
    owner_R[rest] = 1 + deal_shards(labels[rest], clients - 1, per_client, seed)
    return Parts(owner_R, clients)
