"""``python -m benchmarks.simulation.events``: coordinator and clock without training.

An update is two events: a client's request for a task and its arrival. Updates are rows
of zeros of one value that nothing computed; everything else is as in a simulation:
leases, download and upload times, staleness weights, verdicts, versions, the journal.
Because a core's speed varies, seconds are those of the process, divided by the time of
a loop of 1,000,000 plain additions just before, times 45 ms.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fedcore.pool import Pool
from fedcore.samples import Subset
from fedcore.stacks import StackedUpdates
from fedcore.workload import Workload
from fedrun.config import parse_config
from fedrun.run import start_run
from fedsim.engines.stacked import StackedClients
from fedsim.engines.stacked.compute import Computed, Models, Task
from fedsim.engines.stacked.stack import Stack
from fedsim.engines.stacked.work import Work
from fedsim.population import Population
from fedsim.world import World

_LOOP_SECONDS = 0.045
_REPETITIONS = 5
_SETTINGS: dict[str, dict[str, Any]] = {
    "rounds of 100, 1,000 clients": {"kind": "fed_avg", "buffer": 100},
    "FedBuff of 10, 1,000 in flight": {"kind": "fed_buff", "buffer": 10},
    "FedBuff of 100, 1,000 in flight": {"kind": "fed_buff", "buffer": 100},
}


class Nobody:
    """Computes nothing: every update is zero."""

    size = 1

    def compute(self, tasks: Sequence[Task], models: Models, most: int) -> Computed:
        """A row of zeros for each task."""
        count = len(tasks)
        updates = StackedUpdates(
            np.zeros((count, 1), np.float32),
            np.zeros(count),
            [None] * count,
            [None] * count,
        )
        stack = Stack(updates, 10)
        return Computed([(stack, row) for row in range(count)], most)

    def close(self) -> None:
        """Nothing was started."""


def events(algorithm: dict[str, Any], updates: int) -> float:
    """Events a second."""
    x, y = np.zeros((4, 1), np.float32), np.zeros(4, np.int64)
    workload = Workload(
        initial=lambda rng: {"w": np.zeros(1)},
        gradient=lambda params, x, y: (0.0, params),
        train_data=lambda client: Subset(x, y, np.arange(4)),
    )
    with tempfile.TemporaryDirectory() as folder:
        config = parse_config(
            {
                "server": {"journal": str(Path(folder) / "run")},
                "algorithm": algorithm,
                "stop": {"versions": updates // algorithm["buffer"]},
                "simulate": {"clients": 1000, "speed": {"kind": "log_normal"}},
            }
        )
        spec = workload.flat().spec
        run = start_run(
            config,
            spec,
            np.zeros(1, np.float32),
            0.0,
            durable=False,
        )
        world = World(run)
        population = Population(config.simulate, 0)
        work = Work(
            run.coordinator.algorithm,
            Nobody(),
            population.names,
            most=1024,
            memory_bytes=0,
        )
        clients = StackedClients(world, population, workload, Pool(), work, None)
        unit, began = _unit(), time.process_time()
        clients.begin()
        clients.execute(lambda: world.ended is not None)
        seconds = time.process_time() - began
        world.close()
    return 2 * updates / (seconds / unit * _LOOP_SECONDS)


def _unit() -> float:
    """Seconds of a loop that does next to nothing."""
    began, known = time.process_time(), dict[int, int]()
    for number in range(1_000_000):
        known[number & 255] = number + 1
    return time.process_time() - began


def main(updates: int = 60_000) -> None:
    """Prints the table."""
    table = Table("", "events/s", "least", "most", "µs an update")
    for name, algorithm in _SETTINGS.items():
        rates = [events(algorithm, updates) for _ in range(_REPETITIONS)]
        table.add_row(
            name,
            f"{median(rates):,.0f}",
            f"{min(rates):,.0f}",
            f"{max(rates):,.0f}",
            f"{2e6 / median(rates):.1f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
