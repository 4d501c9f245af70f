"""One Flower app, one model: gRPC, the strategy inside Flower, and the simulator."""

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr.app")

from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime, jitter
from fedclient.commands import working
from fedcore.coordinator.events import Decided
from fedcore.training import initial_model
from fedflower.strategy import Latecomer
from fedrun.app import load_app
from fedrun.config import load_config
from fedrun.files import save_model
from fedview.results import Results
from tests.fedflower.strategy.app import (
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
from tests.served import Served
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
        {
            "kind": "fed_buff",
            "buffer": 2,
            "aggregator": {"kind": "flexible_participation", "boost": 2.0},
            **COMPRESSED,
        },
    ],
    ids=["latecomer", "fed_buff", "fed_async", "fed_nova", "arrivals"],
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

    inside(real, algorithm, 4)
    assert published(real.folder / "in") == published(real.run)
    assert published(again(real, real.run, "again")) == published(real.run)
    assert len(published(real.run)) == 4


def decided(run: Path) -> list[tuple[str, int, int]]:
    """Returns whose updates a run took, in order, with their bases and staleness."""
    names = Results(run).names
    return [
        (names[record.cid], record.base, record.staleness)
        for record in records(run)
        if isinstance(record, Decided)
    ]


def inside(real: LocalFederation, algorithm: dict[str, Any], versions: int) -> None:
    """Runs the strategy so that replies arrive in the order of a real run's updates."""
    times = dict[tuple[str, int], float]()
    for arrived, _, _ in decided(real.run):
        nth = sum(name == arrived for name, _ in times)
        times[arrived, nth] = 1_010.0 + 2 * len(times)
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
    found.start(grid, initial_arrays(), versions)


def served_in_order(real: LocalFederation, order: list[int]) -> None:
    """Serves a federation by gRPC to real clients, whose updates arrive in an order.

    Args:
        real: the federation; its server and clients are in this process.
        order: places of nodes; each delivers an update, and gets its next task.
    """
    config, model = load_config(real.path), load_app(FLOWER).flat()
    save_model(config.model, model.spec, initial_model(model, config.seed))
    with Served(real.folder, config) as server, ExitStack() as stack:
        workers = [
            stack.enter_context(
                working(
                    host=server.address,
                    app=FLOWER,
                    state=real.folder / f"state-{node}",
                    name=f"node-{node}",
                    index=index,
                    count=len(NODES),
                    data={},
                    give_up=5.0,
                    checkpoint=None,
                )
            )
            for index, node in enumerate(NODES)
        ]
        for worker in workers:
            worker._enrol()
            worker._turn()  # gets version 0, and trains
        for who in order:
            workers[who]._turn()  # delivers its update, and hears the verdict
            if not server.lines("closed"):
                workers[who]._turn()  # gets the newest version, and trains


@pytest.mark.parametrize(
    ("algorithm", "buffer"),
    [
        ({"kind": "latecomer"}, 2),
        ({"kind": "fed_buff", **COMPRESSED}, 2),
        ({"kind": "fed_async", "client": {"kind": "local_sgd"}, **UNCOMPRESSED}, 1),
    ],
    ids=["latecomer", "fed_buff", "fed_async"],
)
def test_all_three_reach_equal_models_where_nobody_waits(
    algorithm: dict[str, Any], buffer: int, federation: Callable[..., LocalFederation]
) -> None:
    versions, rng = 8, random.Random(7)
    order = rng.choices(range(len(NODES)), weights=[1, 3, 6, 9], k=versions * buffer)
    algorithm = {**algorithm, "buffer": buffer, "places": buffer}
    real = federation(algorithm=algorithm, app=FLOWER, stop={"versions": versions})
    served_in_order(real, order)
    taken = decided(real.run)
    assert [name for name, _, _ in taken] == [f"node-{NODES[who]}" for who in order]
    assert max(staleness for _, _, staleness in taken) > 1

    inside(real, algorithm, versions)
    assert decided(real.folder / "in") == taken
    assert published(real.folder / "in") == published(real.run)
    assert published(again(real, real.run, "again")) == published(real.run)
    assert len(published(real.run)) == versions
