"""``python -m benchmarks.flower.strategy``: our strategy beside FedAvg inside Flower.

Each way is the app ``examples/flower/with-latecomer``: real messages of Flower and real
ClientApps, in one process, on a Grid with a virtual clock. A node's task takes a
second, and one node's ten. The updates a second therefore follow from the schedule, and
the bytes from the records in the messages; both are the same on any machine.
"""

import logging
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from benchmarks.flower.processes import APPS
from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime
from benchmarks.series import add
from fedcore.typing import JSON

RESULTS = Path(__file__).parent.parent / "results" / "flower_strategy.json"
APP = APPS / "with-latecomer"
NODES, UPDATES, SLOW, FAST = 8, 160, 10.0, 1.0
CONFIG = {
    "slow-node": -1,
    "slow-seconds": 0.0,
    "local-steps": 10,
    "learning-rate": 0.2,
    "batch-size": 32,
}


def measure() -> JSON:
    """Returns what each way took for as many updates."""
    sys.path.insert(0, str(APP))
    logging.getLogger("flwr").setLevel(logging.ERROR)
    client_app = import_module("digits_app.client_app")
    from flwr.clientapp import ClientApp
    from flwr.serverapp.strategy import FedAvg

    from fedflower.strategy import Latecomer

    plain = ClientApp()
    plain.train()(client_app.train)
    plain.evaluate()(client_app.evaluate)
    rounds, versions = UPDATES // NODES, UPDATES // 4

    def fed_avg() -> Any:
        return FedAvg(min_train_nodes=NODES, fraction_evaluate=0.0)

    def latecomer() -> Any:
        return Latecomer(buffer=4, evaluate_nodes=False)

    return {
        "FedAvg of Flower": _run(plain, fed_avg, rounds),
        "Latecomer, no mod": _run(plain, latecomer, versions),
        "Latecomer, mod": _run(client_app.app, latecomer, versions),
    }


def _run(app: Any, make: Callable[[], Any], rounds: int) -> JSON:
    global_evaluate = import_module("digits_app.server_app").global_evaluate
    initial_model = import_module("digits_app.task").initial_model
    from flwr.app import Array, ArrayRecord

    def delay(node: int, nth: int) -> float:
        return SLOW if node == 1 else FAST

    clock = VirtualTime()
    nodes = list(range(1, NODES + 1))
    grid = VirtualGrid(app, clock, nodes, delay, config=CONFIG)
    strategy = make()
    if hasattr(strategy, "_clock"):
        strategy._clock = lambda start: clock
    arrays = ArrayRecord({n: Array(w) for n, w in initial_model().items()})
    began = clock.now()
    result = strategy.start(grid, arrays, rounds, timeout=1e6)
    took = clock.now() - began
    updates = sum(grid.replied.values())
    return {
        "updates": updates,
        "seconds": round(took, 1),
        "updates_per_second": round(updates / took, 2),
        "of_slow_node": grid.replied[1],
        "bytes_up_per_update": round(grid.got_bytes / updates),
        "bytes_down_per_update": round(grid.sent_bytes / updates),
        "accuracy": round(float(global_evaluate(0, result.arrays)["accuracy"]), 4),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--save", is_flag=True, help="Save the result beside earlier ones.")
def main(save: bool) -> None:
    """Measure our strategy beside FedAvg, with one slow node."""
    found = {"flwr": version("flwr"), "ways": measure()}
    for name, way in found["ways"].items():
        print(f"{name:20} {way}")
    if save:
        add(RESULTS, found)


if __name__ == "__main__":
    main()
