"""When preemptible workers are there: exponential times of presence and absence."""

from collections.abc import Sequence

import numpy as np

from fedcore.typing import Seconds

Stay = tuple[Seconds, Seconds]


def draw_stays(
    rng: np.random.Generator, up: Seconds, down: Seconds, horizon: Seconds
) -> list[Stay]:
    """Draws the stays of one worker from time 0 to the horizon, in the steady state.

    Args:
        rng: the generator.
        up: mean seconds of a stay; infinite: it never leaves.
        down: mean seconds of an absence.
        horizon: where the last stay is cut off.

    Returns:
        Beginnings and ends, in order, each end after its beginning.
    """
    if np.isinf(up) or down == 0:
        return [(0.0, horizon)]
    stays: list[Stay] = []
    is_there = bool(rng.random() < up / (up + down))
    now = 0.0
    while now < horizon:
        end = now + float(rng.exponential(up if is_there else down))
        if is_there and end > now:
            stays.append((now, min(end, horizon)))
        now, is_there = end, not is_there
    return stays


def draw_inner_stays(
    rng: np.random.Generator, stays: Sequence[Stay], up: Seconds, down: Seconds
) -> list[Stay]:
    """Draws stays within others, as those of a lower bid in the same market.

    Args:
        rng: the generator.
        stays: the others.
        up: mean seconds until one leaves that would not by the end of the others.
        down: mean seconds of an absence that these do not end.
    """
    return [
        (begin + start, begin + stop)
        for begin, end in stays
        for start, stop in draw_stays(rng, up, down, end - begin)
    ]


def cut_before(stays: Sequence[Stay], begin: Seconds) -> list[Stay]:
    """Returns the stays from a time on, at which the worker is first rented."""
    return [(max(start, begin), end) for start, end in stays if end > begin]


def ready_stays(stays: Sequence[Stay], restart: Seconds) -> list[Stay]:
    """Returns the parts of stays in which a worker is ready to compute.

    Args:
        stays: those that are paid.
        restart: the seconds that it takes to start, unless it was there at time 0.
    """
    ready = [(begin + restart if begin else 0.0, end) for begin, end in stays]
    return [(begin, end) for begin, end in ready if begin < end]


def sum_paid_seconds(stays: Sequence[Stay], until: Seconds) -> Seconds:
    """Returns the seconds up to a time for which a worker is there, and is paid."""
    return sum(max(0.0, min(end, until) - begin) for begin, end in stays)
