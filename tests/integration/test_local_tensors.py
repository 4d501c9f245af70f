"""Averaged and local buffers of real processes, and of the simulator."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedview.results import Results
from tests.integration.test_two_drivers import published
from tools.local import LocalFederation

CLIENTS, VERSIONS = 3, 6

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not find_spec("torch"), reason="torch is an extra"),
]
APP = Path(__file__).parent / "batch_norm_app.py"
Make = Callable[..., LocalFederation]
SGD = {"kind": "local_sgd", "lr": 0.05}
PRIORITISED = {"kind": "prioritised_sgd", "lr": 0.05, "priority": "estimate"}
ADAM = {"kind": "local_adam", "lr": 0.01, "keep_moments": True}


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Make]:
    """Makes a federation of one of the app's workloads; it is killed after the test."""
    with ExitStack() as stack:

        def make(name: str, rule: dict[str, Any] = SGD) -> LocalFederation:
            client = rule | {"steps": 4, "batch": 8}
            pace = {"buffer": CLIENTS, "min_clients": CLIENTS}
            settings: dict[str, Any] = {
                "app": f"{APP}:{name}",
                "server": {"listen": "127.0.0.1:0", "journal": "run"},
                "algorithm": {"kind": "fed_avg", "client": client, **pace},
                "evaluate": {"clients": True},
                "stop": {"versions": VERSIONS},
            }
            made = LocalFederation(tmp_path / name, settings, app=f"{APP}:{name}")
            return stack.enter_context(made)

        yield make


def again(real: LocalFederation) -> Path:
    """Simulates the recorded order of arrival, and returns the folder of that run."""
    folder = real.folder / "again"
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(folder), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    return folder


def measured_alike(real: LocalFederation, folder: Path) -> None:
    """Every client measured the same with the last version, and they differ."""
    ours, theirs = Results(real.run).by_client, Results(folder).by_client
    for column in (ours, theirs):
        assert column["version"] == [VERSIONS] * CLIENTS
    losses = [dict(zip(t["client"], t["loss"], strict=True)) for t in (ours, theirs)]
    assert losses[0] == losses[1]
    assert len({*losses[0].values()}) == CLIENTS


@pytest.mark.parametrize(
    ("name", "rule"),
    [("average", SGD), ("fed_bn", SGD), ("average", PRIORITISED)],
)
def test_the_simulator_repeats_a_real_federation_with_buffers(
    name: str, rule: dict[str, Any], federation: Make
) -> None:
    real = federation(name, rule)
    server = real.server("--no-evaluator")
    clients = [real.client(i, CLIENTS) for i in range(CLIENTS)]
    assert server.wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * CLIENTS
    folder = again(real)
    assert published(folder) == published(real.run)
    measured_alike(real, folder)
    assert ("1.running_mean" in moved(real)) is (name == "average")


def moved(real: LocalFederation) -> set[str]:
    """Which tensors of a checkpoint are not those of version 0."""
    results = Results(real.run)
    first, last = results.model(version=0), results.model()
    return {name for name in first if not np.array_equal(first[name], last[name])}


def has_made(real: LocalFederation, versions: int) -> bool:
    return len(published(real.run)) >= versions


@pytest.mark.parametrize(
    ("name", "rule"), [("fed_bn", SGD), ("average", ADAM), ("fed_bn", PRIORITISED)]
)
def test_local_tensors_and_moments_outlive_their_client(
    name: str, rule: dict[str, Any], federation: Make
) -> None:
    real = federation(name, rule)
    server = real.server("--no-evaluator")
    clients = [real.client(i, CLIENTS, "--pace", "0.3") for i in range(CLIENTS)]
    for version, killed in enumerate(clients):
        real.wait_until(partial(has_made, real, version + 1), "a version")
        killed.kill()
        killed.start()
    assert server.wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * CLIENTS
    assert all(client.kills == 1 for client in clients)
    folder = again(real)
    assert published(folder) == published(real.run)
    measured_alike(real, folder)
