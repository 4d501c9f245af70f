"""A short benchmark of this machine: what Paleo's model asks of a device."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from fedcore.planning.paleo import Device

_ROWS = 512  # of the square matrices that are multiplied
_VALUES = 1 << 24  # float32 that are copied: 64 MB, more than a cache holds
_CHAIN = 200  # small operations, one after the other
_TURNS = 7  # the best of which counts: others were disturbed


def measure_device() -> Device:
    """Measures this machine, with the threads that torch uses now."""
    import torch

    left, out = torch.ones(_ROWS, _ROWS), torch.empty(_ROWS, _ROWS)
    source, goal = torch.ones(_VALUES), torch.zeros(_VALUES)
    small = torch.ones(8, requires_grad=True)

    def chain() -> None:  # half of its operations are those of the backward pass
        value = small
        for _ in range(_CHAIN // 2):
            value = value.tanh()
        value.sum().backward()  # type: ignore[no-untyped-call]

    return Device(
        name="this machine",
        peak_gflops=2e-9 * _ROWS**3 / _best(lambda: torch.mm(left, left, out=out)),
        memory_gb_per_second=1e-9 * 8 * _VALUES / _best(lambda: goal.copy_(source)),
        call_microseconds=1e6 * _best(chain) / _CHAIN,
    )


def _best(work: Callable[[], Any]) -> float:
    """The least seconds of several turns; the first one warms up."""
    times = []
    for _ in range(_TURNS + 1):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times[1:])
