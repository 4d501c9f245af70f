"""Version 0 of a Flower app, captured from its ServerApp."""

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.errors import LatecomerError, WorkloadError
from fedcore.rng import Key
from fedflower.app.app import FlowerApp
from fedflower.app.folder import FlowerFolder
from fedflower.app.initial import First
from tests.fedflower.app.apps import CLIENT, PYPROJECT, serves, tiny

pytestmark = pytest.mark.needs("flwr")


def first_of(path: Path, limit: float = 30.0) -> First:
    return FlowerApp(FlowerFolder.read(path), limit=limit).first


def test_arrays_config_and_rounds_are_those_of_the_strategy(tmp_path: Path) -> None:
    first = first_of(tiny(tmp_path))
    assert list(first.arrays) == ["w"]
    assert dict(first.records["config"]) == {"lr": 0.5, "server-round": 1}
    assert (first.rounds, first.kind, first.strategy) == (3, "train", "FedAvg")
    assert first.evaluate is None


def test_other_keys_and_actions_are_those_of_the_message(tmp_path: Path) -> None:
    server = serves(
        """
        from flwr.app import Message, RecordDict
        content = RecordDict({"model": ArrayRecord({"w": Array(np.ones(2))}),
                              "how": ConfigRecord({"alpha": 2})})
        grid.send_and_receive([Message(content, 1, "train.slowly")])
        raise AssertionError("it goes on")
        """
    )
    first = first_of(tiny(tmp_path, server=server))
    assert (first.arrays_key, first.kind) == ("model", "train.slowly")
    assert dict(first.records["how"]) == {"alpha": 2}


def test_what_comes_before_the_training_is_answered_by_the_client(
    tmp_path: Path,
) -> None:
    server = serves(
        """
        from flwr.app import Message, RecordDict
        [node, *_] = grid.get_node_ids()
        content = RecordDict({"arrays": ArrayRecord({"w": Array(np.full(3, 7.0))})})
        ids = grid.push_messages([Message(content, node, "evaluate")])
        [found] = grid.pull_messages(ids)
        size = found.content["metrics"]["size"]
        FedAvg().start(grid, ArrayRecord({"w": Array(np.full(3, size))}))
        """
    )
    first = first_of(tiny(tmp_path, server=server))
    np.testing.assert_array_equal(first.arrays["w"].numpy(), np.full(3, 7.0))


def test_a_server_that_waits_for_many_nodes_gets_them(tmp_path: Path) -> None:
    server = serves(
        """
        while len(list(grid.get_node_ids())) < 200:
            pass
        FedAvg().start(grid, ArrayRecord({"w": Array(np.ones(3))}))
        """
    )
    assert first_of(tiny(tmp_path, server=server)).arrays is not None


def test_a_handler_of_all_exceptions_does_not_keep_it_going(tmp_path: Path) -> None:
    server = serves(
        """
        while True:
            try:
                FedAvg().start(grid, ArrayRecord({"w": Array(np.ones(3))}))
            except Exception:
                pass
        """
    )
    assert first_of(tiny(tmp_path, server=server)).arrays is not None


def test_a_strategy_starts_as_before_afterwards(tmp_path: Path) -> None:
    from flwr.serverapp.strategy import Strategy

    before = Strategy.start
    first_of(tiny(tmp_path))
    assert Strategy.start is before


LEGACY = """
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp
import numpy as np

def server_fn(context):
    strategy = FedAvg({options})
    config = ServerConfig(num_rounds=5)
    return ServerAppComponents(strategy=strategy, config=config)

app = ServerApp(server_fn=server_fn)
"""
NUMPY_CLIENT = """
from flwr.client import NumPyClient

class Client(NumPyClient):
    def get_parameters(self, config):
        return [np.full(2, 3.0)]

    def fit(self, parameters, config):
        return [parameters[0] + config.get("by", 1.0)], 4, {"rounds": 1}

    def evaluate(self, parameters, config):
        return 0.5, 2, {"accuracy": 0.25}

app = ClientApp(client_fn=lambda context: Client().to_client())
"""


def legacy(folder: Path, options: str) -> Path:
    return tiny(folder, NUMPY_CLIENT, LEGACY.format(options=options))


def test_a_legacy_strategy_says_how_it_begins(tmp_path: Path) -> None:
    options = (
        "initial_parameters=ndarrays_to_parameters([np.ones(2)]),"
        'on_fit_config_fn=lambda r: {"by": 2.0, "server_round": r},'
        'evaluate_fn=lambda r, a, c: (1.5, {"sum": float(a[0].sum()), "round": r}),'
        "min_available_clients=30"
    )
    first = first_of(legacy(tmp_path, options))
    np.testing.assert_array_equal(first.arrays["0"].numpy(), np.ones(2))
    assert dict(first.records["fitins.config"]) == {"by": 2.0, "server_round": 1}
    assert (first.rounds, first.is_legacy) == (5, True)
    assert first.evaluate is not None
    assert first.evaluate(3, first.arrays) == {"loss": 1.5, "sum": 2.0, "round": 3.0}


def test_a_legacy_client_is_asked_for_its_parameters(tmp_path: Path) -> None:
    first = first_of(legacy(tmp_path, ""))
    np.testing.assert_array_equal(first.arrays["0"].numpy(), np.full(2, 3.0))


def test_a_legacy_client_trains_and_evaluates(tmp_path: Path) -> None:
    import latecomer

    results = latecomer.run(
        {
            "app": f"flower:{legacy(tmp_path, '')}",
            "algorithm": {"kind": "fed_avg", "buffer": 2},
            "evaluate": {"every_versions": 1, "clients": True},
            "stop": {"versions": 2},
            "simulate": {"clients": 2},
            "server": {"journal": str(tmp_path / "run")},
        }
    )
    np.testing.assert_allclose(results.model()["0"], [5, 5])
    assert results.federated["accuracy"] == [0.25] * 3
    assert results.federated["loss_n"] == [4] * 3
    assert results.updates["metrics.rounds"] == [1] * 4


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("pass", "ended without a message of type train"),
        ("raise KeyError('lr')", "the ServerApp raised KeyError: 'lr'"),
        ("raise SystemExit(3)", r"the ServerApp called sys\.exit\(3\)"),
        (
            "from flwr.app import Message, RecordDict\n"
            'grid.push_messages([Message(RecordDict(), 1, "train")])',
            "the message for training has 0 ArrayRecords; expected one",
        ),
        (
            "from flwr.app import Message, RecordDict\n"
            "a = ArrayRecord()\n"
            'content = RecordDict({"a": a, "b": a})\n'
            'grid.push_messages([Message(content, 1, "train")])',
            "has 2 ArrayRecords: a, b; expected one",
        ),
        (
            "FedAvg().start(grid, ArrayRecord({'n': Array(np.array([1]))}))",
            "no tensors to train",
        ),
    ],
)
def test_a_server_app_without_version_0_is_refused_in_a_sentence(
    tmp_path: Path, body: str, words: str
) -> None:
    app = FlowerApp(FlowerFolder.read(tiny(tmp_path, server=serves(body))))
    with pytest.raises(LatecomerError, match=words):
        _ = app.layout


def test_a_server_app_that_never_sends_is_given_up(tmp_path: Path) -> None:
    server = serves(
        """
        import threading
        threading.Event().wait()
        """
    )
    words = r"has sent no message for training in 0\.5 seconds"
    with pytest.raises(WorkloadError, match=words):
        first_of(tiny(tmp_path, server=server), limit=0.5)


def test_a_folder_without_a_server_app_is_refused(tmp_path: Path) -> None:
    text = PYPROJECT.replace('serverapp = "tiny.server_app:app"\n', "")
    with pytest.raises(WorkloadError, match="has no serverapp, which sends version 0"):
        first_of(tiny(tmp_path, CLIENT, pyproject=text))


def test_the_home_of_the_user_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("FLWR_HOME", raising=False)
    app = FlowerApp(FlowerFolder.read(tiny(tmp_path)))
    app.first_of(Key.root(3))
    assert not list(home.iterdir())
    assert os.environ["FLWR_TELEMETRY_ENABLED"] == "0"


def test_an_app_keeps_two_first_models_however_many_seeds_there_are(
    tmp_path: Path,
) -> None:
    app = FlowerApp(FlowerFolder.read(tiny(tmp_path)))
    usual = weakref.ref(app.first)
    drawn = [weakref.ref(app.first_of(Key.root(seed))) for seed in range(1, 6)]
    gc.collect()
    assert [each() is not None for each in drawn] == [False] * 4 + [True]
    assert usual() is app.first


def test_arrays_follow_the_key(tmp_path: Path) -> None:
    app = FlowerApp(FlowerFolder.read(tiny(tmp_path)))

    def drawn(seed: int) -> Any:
        return app.first_of(Key.root(seed)).arrays["w"].numpy()

    assert np.array_equal(drawn(1), drawn(1))
    assert not np.array_equal(drawn(1), drawn(2))
