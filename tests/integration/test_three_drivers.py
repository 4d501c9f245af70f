"""One Flower app, one model: gRPC, the strategy inside Flower, and the simulator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr.app")

from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime, jitter
from fedcore.coordinator.records import Decided
from fedrun.results import Results
from fedserver.flower import Latecomer
from tests.fedserver.flower.app import (
    APP,
    CONFIG,
    NODES,
    client_app,
    initial_arrays,
)
from tests.integration.test_two_drivers import (
    COMPRESSED,
    UNCOMPRESSED,
    published,
    records,
)
from tools.local import LocalFederation

pytestmark = [pytest.mark.needs("flwr"), pytest.mark.processes]
RUN_CONFIG = "&".join(f"{name}={value}" for name, value in CONFIG.items())
FLOWER = f"flower:{APP}?{RUN_CONFIG}"


def strategy(
    journal: Path, algorithm: dict[str, Any], versions: int, delay: Callable[..., float]
) -> None:
    """Runs the strategy on a virtual clock."""
    grid = VirtualGrid(client_app(), VirtualTime(), list(NODES), delay, config=CONFIG)
    found = Latecomer(algorithm, journal=journal, evaluate_nodes=False)
    found._clock = lambda start: grid.clock
    found.start(grid, initial_arrays(), versions)


def again(real: LocalFederation, run: Path, name: str) -> Path:
    """Simulates the order of arrival of a run."""
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={run}"),
        *("-o", str(real.folder / name), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    return real.folder / name


@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "latecomer", "buffer": 3},
        {"kind": "fed_buff", "buffer": 2, **COMPRESSED},
        {"kind": "fed_async", "client": {"kind": "local_sgd"}, **UNCOMPRESSED},
        {"kind": "fed_nova", "buffer": 4, **COMPRESSED},
    ],
    ids=["latecomer", "fed_buff", "fed_async", "fed_nova"],
)
def test_the_simulator_repeats_a_run_inside_flower_bit_for_bit(
    algorithm: dict[str, Any], federation: Callable[..., LocalFederation]
) -> None:
    real = federation(algorithm=algorithm, app=FLOWER, stop={"versions": 8})
    run = real.folder / "inside"
    strategy(run, algorithm, 8, jitter(1))
    assert published(again(real, run, "again")) == published(run)
    assert len(published(run)) == 8


@pytest.mark.parametrize("codecs", [UNCOMPRESSED, COMPRESSED], ids=["raw", "coded"])
def test_with_equal_order_of_arrival_all_three_reach_equal_models(
    codecs: dict[str, Any], federation: Callable[..., LocalFederation]
) -> None:
    algorithm = {"kind": "fed_avg", "buffer": 4, "min_clients": 4, **codecs}
    real = federation(algorithm=algorithm, app=FLOWER, stop={"versions": 4})
    real.app = FLOWER
    server = real.server("--no-evaluator")
    clients = [
        real.client(index, len(NODES), name=f"node-{node}")
        for index, node in enumerate(NODES)
    ]
    assert server.wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * len(NODES), clients[0].tail()

    names, times = Results(real.run).names, dict[tuple[str, int], float]()
    for record in records(real.run):
        if isinstance(record, Decided):
            nth = sum(name == names[record.cid] for name, _ in times)
            times[names[record.cid], nth] = 1_010.0 + 2 * len(times)
    clock = VirtualTime()

    grid = VirtualGrid(
        client_app(),
        clock,
        list(NODES),
        lambda node, nth: times.get((f"node-{node}", nth), 1e6) - clock.now(),
        config=CONFIG,
    )
    found = Latecomer(algorithm, journal=real.folder / "in", evaluate_nodes=False)
    found._clock = lambda start: clock
    found.start(grid, initial_arrays(), 4)

    assert published(real.folder / "in") == published(real.run)
    assert published(again(real, real.run, "again")) == published(real.run)
    assert len(published(real.run)) == 4
