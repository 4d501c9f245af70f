"""Pathological label skew: every client has rows of exactly k classes.

Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos: An Experimental Study",
ICDE 2022, §4.1, quantity-based label imbalance (#C = k): the rows of a class are shared
equally among the clients that have the class.

The paper draws each client's classes independently. Here they are dealt from shuffled
decks, so that all classes have equally many clients, to one.
"""

import numpy as np

from fedcore.errors import ConfigError
from fedcore.partitions.base import (
    NOBODY,
    Labels,
    Partition,
    Parts,
    check_clients,
    classes_of,
    even_sizes,
    memoise,
    rows_of_classes,
)
from fedcore.rng import Key
from fedcore.typing import Indices


@memoise
def k_classes(
    y: Labels, *, clients: int, per_client: int = 2, seed: int = 0
) -> Partition:
    """Gives each client ``per_client`` classes, and an equal share of each of them.

    Args:
        y: the label of each row.
        clients: the number of clients. If they are too few to have all classes, the
            rows of the other classes belong to nobody.
        per_client: the number of classes that each client has.
        seed: of the draw.

    Returns:
        The rows of each client, ascending.

    Raises:
        ConfigError: a class has fewer rows than clients that should have it, or there
            are fewer classes than a client should have.
    """
    check_clients(len(y), clients)
    names, class_R = classes_of(y)
    if not 1 <= per_client <= len(names):
        raise ConfigError(
            f"per_client must be 1 to {len(names)}, the number of classes, "
            f"got {per_client}"
        )
    rng = Key.root(seed).fold_in("k_classes").generator()
    dealt = _deal(clients, per_client, len(names), rng)
    holder = np.repeat(np.arange(clients), per_client)
    holders = np.split(
        holder[np.argsort(dealt, kind="stable")],
        np.cumsum(np.bincount(dealt, minlength=len(names)))[:-1],
    )
    owner_R = np.full(len(class_R), NOBODY, np.int64)
    for name, rows, having in zip(
        names, rows_of_classes(class_R), holders, strict=True
    ):
        if len(having) > len(rows):
            raise ConfigError(
                f"class {name} has {len(rows)} rows for {len(having)} clients; use "
                "fewer clients or a smaller per_client"
            )
        if len(having):
            owner_R[rng.permutation(rows)] = np.repeat(
                rng.permutation(having), even_sizes(len(rows), len(having))
            )
    return Parts(owner_R, clients)


def _deal(
    clients: int, per_client: int, classes: int, rng: np.random.Generator
) -> Indices:
    """Deals ``per_client`` different classes to each client, one after another."""
    wanted, decks, dealt = clients * per_client, [], 0
    tail = np.empty(0, np.int64)  # what the last deck gave to the client in between
    while dealt < wanted:
        deck = rng.permutation(classes)
        if len(tail):  # what that client has already comes last
            has = np.isin(deck, tail)
            deck = np.concatenate([deck[~has], deck[has]])
        decks.append(deck)
        dealt += classes
        odd = dealt % per_client
        tail = deck[classes - odd :]
    return np.concatenate(decks)[:wanted]
