"""One odd app, one outcome: stacked, one by one, by gRPC and inside Flower."""

import re
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

from fedwire.connect import parse_address
from fedwire.v1 import federation_pb2 as pb

import latecomer
from fedclient.state.store import ClientStore
from fedclient.work.evaluator import Evaluator
from fedclient.work.membership import Identity, Membership
from fedclient.work.worker import Worker
from fedcore.coordinator.events import Evaluated, Failed, Stepped
from fedcore.errors import LatecomerError
from fedcore.interruption import interrupt
from fedcore.model import FlatModel
from fedcore.training import initial_model
from fedcore.workload import Client, Workload
from fedrun.config import parse_config
from fedrun.files import save_model
from fedview.results import Results
from tests.flower import import_flwr
from tests.integration.odd_apps import APPS, Odd, drawing
from tests.served import Served

CLIENTS = 2
VERSIONS = (2,)  # that are evaluated by everyone; a quick evaluator leaves others out
CONFIG: dict[str, Any] = {
    "algorithm": {
        "kind": "fed_avg",
        "buffer": CLIENTS,
        "min_clients": CLIENTS,
        "client": {"kind": "local_sgd", "lr": 0.1, "steps": 2, "batch": 64},
        "uplink": {"kind": "identity"},
        "downlink": {"kind": "identity"},
    },
    "stop": {"versions": 2},
    "evaluate": {"every_versions": 1},
    "timeouts": {"drain": 1.0, "linger": 0.5},
}


class Outcome(NamedTuple):
    """What became of an app."""

    refused: str
    """The sentence, without whose it is; empty: it has run to its end."""
    model: Mapping[str, Any] = MappingProxyType({})
    metrics: Mapping[int, Mapping[str, float]] = MappingProxyType({})
    """By version."""
    digests: tuple[str, ...] = ()


def simulated(odd: Odd, folder: Path, engine: str) -> Outcome:
    """The outcome in the simulator."""
    config = {**CONFIG, "simulate": {"clients": CLIENTS, "engine": {"kind": engine}}}
    try:
        results = latecomer.run(config, odd.make(), folder=folder / engine)
    except LatecomerError as error:
        return Outcome(sentence(error))
    return finished(results)


def finished(results: Results) -> Outcome:
    metrics = {record.version: record.values for record in results.of(Evaluated)}
    digests = tuple(record.digest for record in results.of(Stepped))
    return Outcome("", results.model("last"), metrics, digests)


def sentence(error: BaseException) -> str:
    """What is wrong, without who has said it, and how often."""
    text = re.sub(
        r"^(client-\d(, client-\d)* cannot train|client-\d): ", "", str(error)
    )
    text = re.sub(r"^\d times in a row: ", "", text)
    return text.replace(" of client-0", "").replace(" of client-1", "")


def served(odd: Odd, folder: Path) -> Outcome:
    """The outcome of a server with clients and an evaluator, by gRPC."""
    place = {"listen": "127.0.0.1:0", "journal": str(folder / "served")}
    raw = {**CONFIG, "server": place, "model": str(folder / "model.safetensors")}
    config = parse_config(raw)
    try:
        model = odd.make().flat()
        drawn_D = initial_model(model, config.seed)
        save_model(config.model, model.spec, drawn_D, rest=model.rest())
    except LatecomerError as error:
        return Outcome(sentence(error))
    apps = [odd.make() for _ in range(CLIENTS + 1)]
    models = [app.flat() for app in apps]  # torch draws for one thread at a time
    with Served(folder, config) as server, ThreadPoolExecutor(3) as pool:
        others = [
            pool.submit(work, server, apps[index], models[index], folder, index)
            for index in range(CLIENTS)
        ]
        others.append(pool.submit(judge, server, apps[-1], models[-1], folder))
        errors = [*filter(None, (error_of(each, server) for each in others))]
        if not errors:
            server.wait()
    if errors:
        return Outcome(sentence(errors[0]))
    results = Results(folder / "served")
    told = results.of(Failed)  # the clients may have ended the run before
    return Outcome(told[0].error) if told else finished(results)


def error_of(done: "Future[None]", server: Served) -> BaseException | None:
    error = done.exception(30.0)
    if error is not None and not server.ended:
        server.stop()  # for those that would wait
    return error


def work(
    server: Served, app: Workload, model: FlatModel, folder: Path, index: int
) -> None:
    """A client, until the run has ended."""
    client = Client(f"client-{index}", index, CLIENTS)
    identity = Identity(name=client.name, index=index, count=CLIENTS)
    address = parse_address(server.address)
    with ExitStack() as stack:
        member = Membership(
            address, model, ClientStore(folder / client.name), identity, 0.0
        )
        stack.callback(member.close)
        Worker(member, app, model, client).run()


def judge(server: Served, app: Workload, model: FlatModel, folder: Path) -> None:
    """The evaluator, until the run has ended."""
    identity = Identity(role=pb.ROLE_EVALUATOR, name="evaluator")
    address = parse_address(server.operator_socket)
    with ExitStack() as stack:
        member = Membership(address, model, ClientStore(folder / "e"), identity, 0.0)
        stack.callback(member.close)
        assert app.test_data is not None
        Evaluator(member, model, app.test_data()).run()


@pytest.fixture(autouse=True)
def _as_a_command(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C is heard as in a command, and nobody waits after a failure."""
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.0)
    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", APPS)
def test_an_odd_app_is_the_same_in_every_engine_and_by_grpc(
    name: str, tmp_path: Path
) -> None:
    odd = APPS[name]
    exact = simulated(odd, tmp_path, "exact")
    stacked = simulated(odd, tmp_path, "stacked")
    real = served(odd, tmp_path)
    assert odd.refused in exact.refused
    assert bool(odd.refused) == bool(exact.refused), exact.refused
    assert stacked.refused == exact.refused
    assert real.refused == exact.refused
    assert real.digests == exact.digests
    for other in (stacked, real):
        require_alike(other, exact, odd)


def test_global_generators_are_seeded_for_each_task(tmp_path: Path) -> None:
    odd = Odd(drawing)
    first = simulated(odd, tmp_path / "first", "exact")
    again = simulated(odd, tmp_path / "again", "exact")
    assert not first.refused
    assert again.digests == first.digests
    # The clients of `served` are threads of one process, and share its generators.
    stacked = [simulated(odd, tmp_path / each, "stacked") for each in ("one", "two")]
    assert not stacked[0].refused
    assert stacked[1].digests == stacked[0].digests


def require_alike(other: Outcome, exact: Outcome, odd: Odd) -> None:
    """Checks that two outcomes have one model, and one metrics."""
    assert set(other.model) == set(exact.model)
    for tensor, values in exact.model.items():
        assert other.model[tensor].shape == values.shape
        assert other.model[tensor].dtype == values.dtype
        np.testing.assert_allclose(other.model[tensor], values, atol=1e-5)
    for version in other.metrics.keys() | set(VERSIONS if not odd.refused else ()):
        found, expected = other.metrics[version], exact.metrics[version]
        assert found.keys() == expected.keys()
        for metric, value in expected.items():
            np.testing.assert_allclose(found[metric], value, rtol=1e-4)
            assert value == odd.metrics.get(metric, value) or np.isnan(value)


@pytest.mark.needs("flwr")
@pytest.mark.parametrize("name", [name for name, odd in APPS.items() if odd.in_flower])
def test_an_odd_app_is_the_same_inside_flower(name: str, tmp_path: Path) -> None:
    import_flwr()
    from tests.integration.odd_flower import inside_flower

    odd, outcome = APPS[name], Outcome("")
    try:
        outcome = finished(inside_flower(odd.make(), CONFIG, CLIENTS, tmp_path))
    except LatecomerError as error:
        outcome = Outcome(sentence(error))
    exact = simulated(odd, tmp_path, "exact")
    assert outcome.refused == exact.refused
    require_alike(outcome, exact, odd)
