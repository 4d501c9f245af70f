"""A Flower app on real processes, which are killed, and in the simulator."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedview.results import Results
from tests.fedflower.app.apps import CLIENT, tiny, trains
from tests.flower import import_flwr
from tests.integration.test_local_tensors import again, has_made
from tests.integration.test_two_drivers import published
from tests.integration.typed import desk, typed
from tools.local import LocalFederation

pytestmark = pytest.mark.needs("flwr")
import_flwr()
Make = Callable[..., LocalFederation]
CLIENTS, VERSIONS = 2, 5
COUNTING = (
    trains(
        """
    state = context.state
    seen = state["mine"]["seen"] if "mine" in state else 0
    state["mine"] = ConfigRecord({"seen": seen + 1})
    step = np.random.standard_normal(3) + context.node_config["partition-id"]
    return reply(msg, {"w": w + step}, {"seen": seen, "num-examples": 10 + seen})
    """
    )
    + "\n\n"
    + CLIENT[CLIENT.index("@app.evaluate") :].replace(
        '"size":', '"round": msg.content["config"]["server-round"], "size":'
    )
)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Make]:
    """Makes a federation of a Flower app; it is killed after the test."""
    with ExitStack() as stack:

        def make(**algorithm: Any) -> LocalFederation:
            app = f"flower:{tiny(tmp_path, COUNTING)}"
            settings: dict[str, Any] = {
                "app": app,
                "server": {"listen": "127.0.0.1:0", "journal": "run"},
                "algorithm": algorithm,
                "evaluate": {"clients": True},
                "stop": {"versions": VERSIONS},
            }
            made = LocalFederation(tmp_path / "fed", settings, app=app)
            return stack.enter_context(made)

        yield make


@pytest.mark.processes
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["fed_avg", "latecomer"])
def test_a_killed_flower_client_keeps_its_state_and_the_simulator_repeats_it(
    federation: Make, kind: str
) -> None:
    real = federation(kind=kind, buffer=2, min_clients=CLIENTS)
    server = real.server("--no-evaluator")
    clients = [real.client(i, CLIENTS, "--pace", "0.3") for i in range(CLIENTS)]
    for version, killed in enumerate(clients):
        real.wait_until(partial(has_made, real, version + 1), "a version")
        killed.kill()
        killed.start()
    assert server.wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * CLIENTS
    updates, evaluated = Results(real.run).updates, Results(real.run).federated
    assert evaluated["round"] == evaluated["version"]
    for name in set(updates["client"]):
        mine = [i for i, client in enumerate(updates["client"]) if client == name]
        seen = [updates["metrics.seen"][i] for i in mine]
        assert seen == list(range(len(mine)))  # saved once with each update
        assert [updates["samples"][i] for i in mine] == [10 + n for n in seen]
    folder = again(real)
    assert published(folder) == published(real.run)


def test_version_0_is_written_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(tmp_path)
    with desk(tmp_path, monkeypatch):
        done = typed("fedclient", "model", "--flower", "app", "-o", "v0.safetensors")
        assert done.status == 0, done.err
        assert "v0.safetensors: 3 values in 1 tensors" in done.out
        words = ("fedclient", "evaluate-file", "--flower", "app", "v0.safetensors")
        sentence = typed(*words).sentence(65)
        assert "has no evaluate_fn in its ServerApp, so that only its" in sentence


def test_a_folder_is_simulated_without_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(tmp_path)
    with desk(tmp_path, monkeypatch):
        words = ["fedsim", "run", "--flower", "app", "-o", "run", "--no-report"]
        done = typed(*words, "--run-config", "lr=1.0 num-server-rounds=2")
        assert done.status == 0, done.err
        results = Results(tmp_path / "run")
        assert results.summary["ended"] == "2 versions"
        assert results.federated["clients"] == [4, 4, 4]
        np.testing.assert_allclose(results.model()["w"], np.full(3, 2.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fedsim", "run"], "CONFIG is missing; only a Flower app"),
        (["fedsim", "run", "--flower", "."], "no Flower app: it has no pyproject.toml"),
        (
            ["fedsim", "run", "--flower", "app", "--run-config", "rl=2"],
            "'rl' is not in [tool.flwr.app.config]",
        ),
        (
            ["fedsim", "run", "--flower", "app", "--run-config", "2"],
            'expected "key=value key=value"',
        ),
        (
            ["fedsim", "run", "--flower", "app", "--node-config", "2"],
            'expected "key=value key=value"',
        ),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    tiny(tmp_path)
    with desk(tmp_path, monkeypatch):
        done = typed(*words)
        assert done.status != 0
        (error,) = done.errors
        assert sentence in error


def test_an_app_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch):
        both = typed("fedclient", "model", "--flower", "a", "--app", "b:c")
        assert "given twice: by --app and by --flower" in both.err
        none = typed("fedclient", "model")
        assert "say --app MODULE:ATTRIBUTE, or --flower DIR" in none.err
        stray = typed("fedclient", "model", "--app", "b:c", "--run-config", "a=1")
        assert "--run-config is for --flower DIR" in stray.err


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, "needs the package flwr: pip install 'latecomer[flower]'"),
        ("1.20.0", r"needs flwr 1.24 or newer, found 1.20.0: pip install -U 'lateco"),
    ],
)
def test_flwr_that_is_absent_or_too_old_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, words: str
) -> None:
    from fedflower.app import library
    from fedrun import optional

    tiny(tmp_path)
    if version is None:
        monkeypatch.setattr(optional, "find_spec", lambda module: None)
    else:
        monkeypatch.setattr(library, "_read_version", lambda: version)
    with desk(tmp_path, monkeypatch):
        done = typed("fedsim", "run", "--flower", "app")
        assert words in done.sentence(78)
