"""Every recipe, served over gRPC to clients and then simulated: one model, bit for bit.

The server and its clients are threads of this process, so a recipe takes about a
second; :mod:`tests.integration.test_two_drivers` does so with processes for a few.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fedwire.connect import parse_address

import latecomer
from fedclient.state.store import ClientStore
from fedclient.work.membership import Identity, Membership
from fedclient.work.worker import Worker
from fedcore.algorithm import AlgorithmConfig
from fedcore.config import kind_of, methods
from fedcore.coordinator.events import Decided, Stepped
from fedcore.training import initial_model
from fedcore.workload import Client, Workload
from fedrun.config import FederationConfig, parse_config
from fedrun.files import save_model
from fedview.results import Results
from tests.fedsim.toys import toy
from tests.served import Served

CLIENTS, VERSIONS = 3, 6
RECIPES = sorted(
    kind_of(recipe)
    for recipe in methods(AlgorithmConfig)
    if recipe.__module__.startswith("fedcore.")
)


def federation(kind: str, folder: Path) -> FederationConfig:
    """A short run of the recipe as it is, with as many updates a version as clients."""
    algorithm: dict[str, Any] = {"kind": kind, "min_clients": CLIENTS}
    recipe = next(r for r in methods(AlgorithmConfig) if kind_of(r) == kind)
    if recipe.model_fields["buffer"].default > CLIENTS:
        algorithm["buffer"] = CLIENTS
    return parse_config(
        {
            "model": str(folder / "model.safetensors"),
            "server": {"listen": "127.0.0.1:0", "journal": str(folder / "run")},
            "algorithm": algorithm,
            "stop": {"versions": VERSIONS},
            "timeouts": {"drain": 1.0, "linger": 5.0},
        }
    )


def work(server: Served, app: Workload, index: int) -> None:
    """One client, until the run has ended."""
    name = f"client-{index}"
    model = app.flat()
    member = Membership(
        parse_address(server.address),
        model,
        ClientStore(server.folder / name),
        Identity(name=name, index=index, count=CLIENTS),
        10.0,
    )
    try:
        Worker(member, app, model, Client(name, index, CLIENTS, {})).run()
    finally:
        member.close()


@pytest.mark.parametrize("kind", RECIPES)
def test_a_simulation_of_the_recipe_repeats_what_was_served(
    kind: str, tmp_path: Path
) -> None:
    app = toy()
    model = app.flat()
    config = federation(kind, tmp_path)
    save_model(config.model, model.spec, initial_model(model, config.seed))
    with ExitStack() as stack:
        server = stack.enter_context(Served(tmp_path, config))
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        ended = [pool.submit(work, server, app, index) for index in range(CLIENTS)]
        for each in ended:
            each.result(60)
        server.wait()
        assert server.error is None
    simulate = config.simulate.model_copy(update={"arrivals": tmp_path / "run"})
    again = config.model_copy(update={"simulate": simulate})
    found = latecomer.run(again, app, folder=tmp_path / "again")
    real = Results(tmp_path / "run")
    assert digests(found) == digests(real)
    assert len(digests(real)) == VERSIONS
    assert len(set(digests(real))) > 1
    assert [r.weight for r in found.of(Decided)] == [r.weight for r in real.of(Decided)]


def digests(results: Results) -> list[str]:
    """Those of every version."""
    return [record.digest for record in results.of(Stepped)]
