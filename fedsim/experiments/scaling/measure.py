"""A short benchmark of this machine: what Paleo's model asks of a device."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from fedcore.planning.paleo import Device

_ROWS = 512  # of the square matrices that are multiplied
_VALUES = 1 << 24  # float32 that are copied: 64 MB, more than a cache holds
_CHAIN = 200  # small operations, one after the other
_TURNS = 7  # the best of which counts: others were disturbed


def measure_device(*, with_torch: bool) -> Device:
    """Measures this machine, with the threads that torch or NumPy use now.

    Args:
        with_torch: whether torch computes, which training does too; otherwise NumPy,
            whose operations have no backward pass.
    """
    multiply, copy, start = _torch() if with_torch else _numpy()
    return Device(
        name="this machine",
        peak_gflops=2e-9 * _ROWS**3 / _best(multiply),
        memory_gb_per_second=1e-9 * 8 * _VALUES / _best(copy),
        call_microseconds=1e6 * _best(start) / _CHAIN,
    )


def _best(work: Callable[[], Any]) -> float:
    """The least seconds of several turns; the first one warms up."""
    times = []
    for _ in range(_TURNS + 1):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times[1:])


Works = tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]


def _numpy() -> Works:
    left, out = np.ones((_ROWS, _ROWS), np.float32), np.empty((_ROWS,) * 2, np.float32)
    source, goal = np.ones(_VALUES, np.float32), np.zeros(_VALUES, np.float32)
    small = np.ones(8, np.float32)

    def chain() -> None:
        for _ in range(_CHAIN):
            small + small

    return (
        lambda: np.matmul(left, left, out=out),
        lambda: np.copyto(goal, source),
        chain,
    )


def _torch() -> Works:
    import torch

    left, out = torch.ones(_ROWS, _ROWS), torch.empty(_ROWS, _ROWS)
    source, goal = torch.ones(_VALUES), torch.zeros(_VALUES)
    small = torch.ones(8, requires_grad=True)

    def chain() -> None:  # half of its operations are those of the backward pass
        value = small
        for _ in range(_CHAIN // 2):
            value = value.tanh()
        value.sum().backward()  # type: ignore[no-untyped-call]

    return lambda: torch.mm(left, left, out=out), lambda: goal.copy_(source), chain
