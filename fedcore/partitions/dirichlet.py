"""Label skew: the rows of each class are shared out by a Dirichlet draw.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", 2019, arXiv 1909.06335, in the form of Yurochkin
et al., ICML 2019: for each class, client shares p ~ Dir(α·1). Small α gives each
client few classes; sizes are unequal.
"""

import math

import numpy as np

from fedcore.errors import ConfigError
from fedcore.partitions.base import Labels, Partition, check_clients
from fedcore.rng import Key

_DRAWS = 1000


def dirichlet(
    y: Labels, *, clients: int, alpha: float, seed: int = 0, min_size: int = 1
) -> Partition:
    """Parts whose label distributions differ the more, the smaller ``alpha`` is.

    Draws again until every client has ``min_size`` rows.

    Raises:
        ConfigError: impossible, or not reached in a thousand draws.
    """
    check_clients(len(y), clients)
    if not 0 < alpha < math.inf:
        raise ConfigError(f"alpha must be above 0 and finite, got {alpha}")
    labels = np.asarray(y)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    rng = Key.root(seed).fold_in("dirichlet").generator()
    for _ in range(_DRAWS):
        parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for rows in classes:
            shares = rng.dirichlet(np.full(clients, alpha))
            cuts = (np.cumsum(shares)[:-1] * len(rows)).astype(int)
            for part, piece in zip(
                parts, np.split(rng.permutation(rows), cuts), strict=True
            ):
                part.append(piece)
        if min(sum(map(len, part)) for part in parts) >= min_size:
            return [np.sort(np.concatenate(part)) for part in parts]
    raise ConfigError(
        f"no draw of {_DRAWS} gave each of {clients} clients {min_size} of {len(y)} "
        "rows at "
        f"alpha {alpha}; use fewer clients or a larger alpha"
    )
