"""Label skew: the rows of each class are shared out by a Dirichlet draw.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", 2019, arXiv 1909.06335, in the form of Yurochkin
et al., ICML 2019: for each class, client shares p ~ Dir(α·1). Small α gives each
client few classes; sizes are unequal.

Others draw again until every client has enough rows, which with many clients never
happens. Here the search ends, and the last draw is mended: the largest clients give
rows, taken at random, to those that are short.
"""

import numpy as np

from fedcore.partitions.base import (
    Labels,
    Partition,
    Parts,
    check_clients,
    check_positive,
    classes_of,
    memoise,
    owners,
    rows_of_classes,
)
from fedcore.rng import Key
from fedcore.typing import Counts, Indices

_DRAWS = 1000
# Values that are drawn in all: a thousand draws of 100,000 rows and 100,000 shares.
_VALUES = 200_000_000
# If each of the first draws leaves this many clients short, a thousand draws have a
# chance below 1e-6: the clients that are short are about Poisson distributed.
_FIRST, _HOPELESS = 8, 24


@memoise
def dirichlet(
    y: Labels, *, clients: int, alpha: float, seed: int = 0, min_size: int = 1
) -> Partition:
    """Gives clients parts whose label distributions and sizes differ.

    Draws again until every client has ``min_size`` rows, up to a thousand times if
    that may succeed. If no draw does, rows move from the largest clients to those that
    are short, no more than they need.

    Args:
        y: the label of each row.
        clients: the number of clients.
        alpha: the smaller it is, the more the parts differ; above 0.
        seed: of the draw.
        min_size: the rows that every client has at least. With 0 the first draw
            counts, and clients may be without rows.

    Returns:
        The rows of each client, ascending.

    Raises:
        ConfigError: there are too few rows, or ``alpha`` is out of range.
    """
    check_clients(len(y), clients, min_size)
    check_positive("alpha", alpha)
    _, class_R = classes_of(y)
    classes = rows_of_classes(class_R)
    rng = Key.root(seed).fold_in("dirichlet").generator()
    draws = min(_DRAWS, _VALUES // (len(class_R) + clients * len(classes)) + 1)
    least_short = clients
    for draw in range(draws):
        owner_R = _draw(classes, clients, alpha, rng)
        sizes_N = np.bincount(owner_R, minlength=clients)
        short = int((sizes_N < min_size).sum())
        if not short:
            break
        least_short = min(least_short, short)
        if draw + 1 >= _FIRST and least_short >= _HOPELESS:
            break
    if short:
        _mend(owner_R, sizes_N, min_size, rng)
    return Parts(owner_R, clients)


def _draw(
    classes: list[Indices], clients: int, alpha: float, rng: np.random.Generator
) -> Indices:
    """Returns the client of each row."""
    owner_R = np.empty(sum(map(len, classes)), np.int64)
    for rows in classes:
        shares_N = rng.dirichlet(np.full(clients, alpha))
        cuts = (np.cumsum(shares_N)[:-1] * len(rows)).astype(int)
        sizes_N = np.diff(cuts, prepend=0, append=len(rows))
        owner_R[rng.permutation(rows)] = owners(sizes_N)
    return owner_R


def _mend(
    owner_R: Indices, sizes_N: Counts, min_size: int, rng: np.random.Generator
) -> None:
    """Moves rows, in place, from the largest clients to those below ``min_size``."""
    wanted_N = np.maximum(0, min_size - sizes_N)
    level = _level(sizes_N, int(wanted_N.sum()))
    shuffled = rng.permutation(len(owner_R))
    by_owner = shuffled[np.argsort(owner_R[shuffled], kind="stable")]
    owner = owner_R[by_owner]
    height = np.cumsum(sizes_N)[owner] - np.arange(len(by_owner))  # 1 to the size
    offered = rng.permutation(np.flatnonzero(height > level))
    highest = offered[np.argsort(-height[offered], kind="stable")]
    takers = owners(wanted_N)
    owner_R[by_owner[highest[: len(takers)]]] = takers


def _level(sizes_N: Counts, wanted: int) -> int:
    """Returns the highest size above which clients have ``wanted`` rows together."""
    low, high = 0, int(sizes_N.max())
    while low < high:
        middle = (low + high + 1) // 2
        if np.maximum(0, sizes_N - middle).sum() >= wanted:
            low = middle
        else:
            high = middle - 1
    return low
