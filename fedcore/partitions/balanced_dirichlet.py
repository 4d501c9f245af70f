"""Label skew with equal sizes: each client draws its own mixture of labels.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", 2019, arXiv 1909.06335, §3: client mixtures
q ~ Dir(α·C·p), where p is the label distribution of all rows, and every client draws
as many rows from its mixture, without replacement. A class that is used up is left out
of the mixtures that follow; clients draw in a random order.

The paper writes Dir(α·p). With the factor C, the number of classes, ``alpha`` means
for each class what it means in ``dirichlet``; the paper's α is C times ours.
"""

import numpy as np
import numpy.typing as npt

from fedcore.partitions.base import (
    Labels,
    Partition,
    Parts,
    check_clients,
    check_positive,
    classes_of,
    even_sizes,
    memoise,
    rows_of_classes,
)
from fedcore.rng import Key
from fedcore.typing import Counts

_CHUNK = 1 << 18  # counts that are drawn at once

Mixtures = npt.NDArray[np.float64]


@memoise
def balanced_dirichlet(
    y: Labels, *, clients: int, alpha: float, seed: int = 0
) -> Partition:
    """Gives clients parts whose label distributions differ, and whose sizes do not.

    Args:
        y: the label of each row.
        clients: the number of clients.
        alpha: the smaller it is, the fewer classes a client has; above 0.
        seed: of the draw.

    Returns:
        The rows of each client, ascending; sizes differ by at most one.

    Raises:
        ConfigError: there are fewer rows than clients, or ``alpha`` is out of range.
    """
    check_clients(len(y), clients)
    check_positive("alpha", alpha)
    _, class_R = classes_of(y)
    supply_C = np.bincount(class_R)
    rng = Key.root(seed).fold_in("balanced_dirichlet").generator()
    turn_N = rng.permutation(clients)
    sizes_N = even_sizes(len(class_R), clients)
    mixtures_NC = rng.dirichlet(
        alpha * len(supply_C) * supply_C / len(class_R), clients
    )
    counts_NC = np.empty((clients, len(supply_C)), np.int64)
    counts_NC[turn_N] = _draw(mixtures_NC, sizes_N[turn_N], supply_C, rng)
    owner_R = np.empty(len(class_R), np.int64)
    for rows, counts_N in zip(rows_of_classes(class_R), counts_NC.T, strict=True):
        owner_R[rng.permutation(rows)] = np.repeat(np.arange(clients), counts_N)
    return Parts(owner_R, clients)


def _draw(
    mixtures_NC: Mixtures, sizes_N: Counts, supply_C: Counts, rng: np.random.Generator
) -> Counts:
    """Returns the rows of each class that each client draws, in turn: (N, C)."""
    clients, classes = mixtures_NC.shape
    counts_NC = np.empty((clients, classes), np.int64)
    left_C, chunk, at = supply_C.copy(), max(1, _CHUNK // classes), 0
    while at < clients:
        mixtures = _open(mixtures_NC[at : at + chunk], left_C)
        drawn = rng.multinomial(sizes_N[at : at + chunk], mixtures)
        too_many = (np.cumsum(drawn, axis=0) > left_C).any(axis=1)
        fine = int(too_many.argmax()) if too_many.any() else len(drawn)
        counts_NC[at : at + fine] = drawn[:fine]
        left_C -= drawn[:fine].sum(axis=0)
        at += fine
        if fine < len(drawn):  # it uses a class up, so those after it draw again
            counts_NC[at] = _fill(drawn[fine], mixtures_NC[at], left_C, rng)
            left_C -= counts_NC[at]
            at += 1
    return counts_NC


def _fill(
    drawn_C: Counts, mixture_C: Mixtures, left_C: Counts, rng: np.random.Generator
) -> Counts:
    """Draws as far as rows are left; other classes make up for what is missing."""
    taken_C = np.minimum(drawn_C, left_C)
    while missing := int(drawn_C.sum() - taken_C.sum()):
        rest_C = left_C - taken_C
        more_C = rng.multinomial(missing, _open(mixture_C, rest_C))
        taken_C += np.minimum(more_C, rest_C)
    return taken_C


def _open(mixtures: Mixtures, left_C: Counts) -> Mixtures:
    """Mixtures (..., C) of the classes that have rows left.

    A mixture of none of them becomes one in proportion to their rows.
    """
    still = mixtures * (left_C > 0)
    total = still.sum(axis=-1, keepdims=True)
    # A mixture may hold only rounding errors of the classes that are left.
    usable = total > np.finfo(np.float64).tiny
    safe = np.where(usable, total, 1.0)
    return np.where(usable, still / safe, left_C / left_C.sum())
