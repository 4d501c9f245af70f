"""Quantity skew: labels alike, sizes unequal.

- ``alpha``: shares q ~ Dir(α·1), Li, Diao, Chen, He, "Federated Learning on Non-IID
  Data Silos: An Experimental Study", ICDE 2022, §4.3.
- ``sigma``: log-normal sizes, as in the synthetic data of Li, Sahu, Zaheer, Sanjabi,
  Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020
  (in the authors' code; σ 2 there).
- ``exponent``: Zipf's law, the k-th largest client has a share in proportion to k^-s.

Where the first paper draws again until all clients have ten rows, here each has
``min_size`` first, and the rest is shared out.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError
from fedcore.partitions.base import (
    REMEMBERED,
    Labels,
    Partition,
    Parts,
    check_clients,
    check_positive,
    owners,
)
from fedcore.rng import Key


def quantity_skew(
    y: Labels,
    *,
    clients: int,
    alpha: float | None = None,
    sigma: float | None = None,
    exponent: float | None = None,
    seed: int = 0,
    min_size: int = 1,
) -> Partition:
    """Gives clients random parts of unequal sizes, by exactly one of three laws.

    Args:
        y: the label of each row; only their number matters.
        clients: the number of clients.
        alpha: of a Dirichlet distribution; the smaller, the more unequal.
        sigma: of log-normal sizes; the larger, the more unequal.
        exponent: of Zipf's law; the larger, the more unequal.
        seed: of the draw.
        min_size: the rows that every client has at least.

    Returns:
        The rows of each client, ascending.

    Raises:
        ConfigError: there are too few rows, or not exactly one law is given.
    """
    return _share_out(len(y), clients, alpha, sigma, exponent, seed, min_size)


@lru_cache(REMEMBERED, typed=True)
def _share_out(
    rows: int,
    clients: int,
    alpha: float | None,
    sigma: float | None,
    exponent: float | None,
    seed: int,
    min_size: int,
) -> Partition:
    check_clients(rows, clients, min_size)
    given = {"alpha": alpha, "sigma": sigma, "exponent": exponent}
    laws = {name: value for name, value in given.items() if value is not None}
    if len(laws) != 1:
        named = ", ".join(laws) or "none"
        raise ConfigError(
            f"quantity_skew takes exactly one of alpha, sigma and exponent; got {named}"
        )
    ((law, value),) = laws.items()
    check_positive(law, value)
    rng = Key.root(seed).fold_in("quantity_skew", law).generator()
    weights_N = _weights(law, value, clients, rng)
    edges = np.rint(
        np.cumsum(weights_N) / weights_N.sum() * (rows - clients * min_size)
    )
    sizes_N = min_size + np.diff(edges.astype(np.int64), prepend=0)
    owner_R = np.empty(rows, np.int64)
    owner_R[rng.permutation(rows)] = owners(sizes_N)
    return Parts(owner_R, clients)


def _weights(
    law: str, value: float, clients: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    if law == "alpha":
        return rng.dirichlet(np.full(clients, value))
    if law == "sigma":
        log_N = value * rng.standard_normal(clients)
        return np.asarray(np.exp(log_N - log_N.max()))
    ranks_N = np.arange(1, clients + 1, dtype=np.float64)
    return rng.permutation(np.power(ranks_N, -value))
