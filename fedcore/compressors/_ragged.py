"""The frame of the methods that find out how many values they send."""

from collections.abc import Callable

from fedcore.arrays import array_namespace
from fedcore.payloads import Payload, sparse_payload
from fedcore.typing import Array


def sparse_rows(delta_D: Array, select: Callable[[int, Array], Array]) -> Payload:
    """Returns the message of the values at selected places.

    Args:
        delta_D: the values, shape (D,) or (N, D).
        select: takes the number and the values of a row, and returns the places in it,
            ascending. Rows may have different numbers of places; zeros fill them up.
    """
    dim = delta_D.shape[-1]
    if delta_D.ndim == 1:
        places_K = select(0, delta_D)
        return sparse_payload(dim, places_K, delta_D[places_K])
    xp = array_namespace(delta_D)
    chosen = [select(number, row_D) for number, row_D in enumerate(delta_D)]
    widest = max(len(places_K) for places_K in chosen)
    padded = [
        _pad(row_D, places_K, widest)
        for row_D, places_K in zip(delta_D, chosen, strict=True)
    ]
    indices, values = (xp.stack(list(part)) for part in zip(*padded, strict=True))
    return sparse_payload(dim, indices, values)


def _pad(x_D: Array, places_K: Array, count: int) -> tuple[Array, Array]:
    """Returns ``count`` ascending places and values; zeros fill up those selected."""
    xp = array_namespace(x_D)
    mask = xp.zeros_like(x_D[:count], dtype=xp.bool)
    mask[places_K[places_K < count]] = True
    free = xp.nonzero(~mask)[0][: count - len(places_K)]
    places = xp.concat([places_K, free])
    values = xp.concat([x_D[places_K], xp.zeros_like(x_D[: len(free)])])
    order = xp.argsort(places)
    return places[order], values[order]
