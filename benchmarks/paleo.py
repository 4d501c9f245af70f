"""``python -m benchmarks.paleo``: predicted beside measured seconds of a training step.

Each repetition measures this machine as ``fedsim scale --measure`` does, and then the
step of three models: the gradient of a batch, and w ← w - lr·g, in one thread. It
prints predicted / measured seconds: with the model of the paper, and with our addition
of the time to start operations.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.series import add
from benchmarks.speed.measure import machine
from fedcore.model import FlatModel
from fedcore.planning.paleo import Device, optimizer_layer, step_time
from fedcore.rng import Key
from fedstudies.scaling.measure import measure_device
from fedtorch import TorchWorkload
from fedtorch.flops import count_layers
from fedtorch.models import char_lstm, fed_avg_cnn, mlp

RESULTS = Path(__file__).parent / "results" / "paleo.json"
SECONDS, FEWEST = 1.5, 10  # of each model, and steps


class Case(NamedTuple):
    """A model, and a batch for it."""

    model: Callable[[], nn.Module]
    x: torch.Tensor
    y: torch.Tensor


def cases() -> dict[str, Case]:
    """An MLP, a CNN and an LSTM, with random batches."""
    draw = torch.Generator().manual_seed(0)

    def classes(most: int, *shape: int) -> torch.Tensor:
        return torch.randint(most, shape, generator=draw)

    return {
        "MLP 784-300-124-60-10, batch 32": Case(
            lambda: mlp(784, 300, 124, 60, 10),
            torch.rand(32, 784, generator=draw),
            classes(10, 32),
        ),
        "CNN of FedAvg, batch 16": Case(
            fed_avg_cnn, torch.rand(16, 1, 28, 28, generator=draw), classes(10, 16)
        ),
        "LSTM of characters, batch 8 of 40": Case(
            char_lstm, classes(90, 8, 40), classes(90, 8, 40)
        ),
    }


def measured(model: FlatModel, case: Case) -> tuple[float, float]:
    """The least and the median seconds of a step.

    The device is measured by its least times, so predictions are compared with these;
    the median also holds what else the machine does.
    """
    w_D = model.initial(Key.root(0)).copy()
    times: list[float] = []
    began = perf_counter()
    while len(times) < FEWEST or perf_counter() - began < SECONDS:
        start = perf_counter()
        _, g_D = model.gradient(w_D, case.x, case.y)
        w_D -= 1e-4 * g_D
        times.append(perf_counter() - start)
    return min(times[2:]), statistics.median(times[2:])


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--save", action="store_true", help=f"into {RESULTS.name}")
    options = parser.parse_args(words)
    where = machine()
    rows: dict[str, list[dict[str, Any]]] = {}
    devices: list[Device] = []
    loss = nn.CrossEntropyLoss()
    ready = {}
    for name, case in cases().items():
        flat = TorchWorkload(
            model=case.model, loss=loss, train_data=lambda client: None
        ).flat()
        layers = count_layers(case.model(), loss, case.x, case.y).layers
        ready[name] = case, flat, [*layers, optimizer_layer(flat.spec.dim)]
    torch.set_num_threads(1)
    for _ in range(options.repetitions):
        device = measure_device()
        devices.append(device)
        paper = device.model_copy(update={"call_microseconds": 0.0})
        for name, (case, flat, layers) in ready.items():
            took, usual = measured(flat, case)
            rows.setdefault(name, []).append(
                {
                    "measured_ms": 1e3 * took,
                    "median_ms": 1e3 * usual,
                    "paper": step_time(layers, paper) / took,
                    "with_start": step_time(layers, device) / took,
                    "of_median": step_time(layers, device) / usual,
                }
            )
    for name, found in rows.items():
        for kind in ("paper", "with_start", "of_median"):
            ratios = sorted(row[kind] for row in found)
            print(
                f"{name:36} {kind:11} predicted / measured "
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            )
    run = {
        "machine": where,
        "repetitions": options.repetitions,
        "threads": 1,
        "devices": [device.model_dump() for device in devices],
        "models": rows,
    }
    if options.save:
        add(RESULTS, run)


if __name__ == "__main__":
    main()
