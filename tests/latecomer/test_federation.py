"""A federation from plain Python: a server and its clients, each in a thread."""

import asyncio
import dataclasses
import queue
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedclient.commands import write_model
from fedclient.state.store import ClientStore
from fedcore.errors import (
    ConfigError,
    JournalError,
    LatecomerError,
    UnavailableError,
    WorkloadError,
)
from tests.integration import numpy_app

APP = f"{Path(__file__).parents[1] / 'integration' / 'numpy_app.py'}:workload"
PATIENCE = 60.0
untested = latecomer.Workload(
    initial=numpy_app.initial,
    gradient=numpy_app.gradient,
    train_data=numpy_app.train_data,
)
untyped: Any = latecomer  # what a program that is not checked may write


def config(folder: Path, **more: Any) -> dict[str, Any]:
    write_model(APP, folder / "model.safetensors", 0)
    return {
        "model": str(folder / "model.safetensors"),
        "server": {"listen": "127.0.0.1:0", "journal": str(folder / "run")},
        "algorithm": {"kind": "latecomer", "buffer": 2},
        "evaluate": {"every_versions": 2, "evaluators": ["evaluator"]},
        "stop": {"versions": 4},
        "timeouts": {"linger": 5.0},
        **more,
    }


def test_a_server_two_clients_and_an_evaluator_run_to_the_end(tmp_path: Path) -> None:
    addresses: queue.Queue[str] = queue.Queue()
    seen: list[int] = []

    def train_data(client: latecomer.Client) -> Any:
        assert client.args == {"site": "7"}
        seen.append(client.index)
        return numpy_app.train_data(client)

    own = dataclasses.replace(untested, train_data=train_data)
    with ThreadPoolExecutor(4) as threads:
        serving = threads.submit(
            latecomer.serve,
            {**config(tmp_path), "model": str(tmp_path / "first.safetensors")},
            untested,
            on_listening=addresses.put,
        )
        address = addresses.get(timeout=PATIENCE)
        joining: list[Future[None]] = [
            threads.submit(
                latecomer.join,
                address,
                app,
                state=tmp_path / f"state-{index}",
                index=index,
                count=2,
                data={"site": "7"},
                give_up=PATIENCE,
            )
            for index, app in enumerate((own, own))
        ]
        evaluating = threads.submit(
            latecomer.evaluate,
            address,
            APP,
            state=str(tmp_path / "evaluator"),
            give_up=PATIENCE,
        )
        results = serving.result(PATIENCE)
        for each in (*joining, evaluating):
            each.result(PATIENCE)
    assert results.summary["ended"] == "4 versions"
    assert results.summary["versions"] == 4
    assert sorted(seen) == [0, 1]
    assert "accuracy" in results.metrics
    again = latecomer.Results(tmp_path / "run")
    assert again.summary == results.summary


def test_ctrl_c_stops_a_server_in_the_main_thread_and_hands_signals_back(
    tmp_path: Path,
) -> None:
    code = f"""
import os, signal, sys, threading
from pathlib import Path
import latecomer
from tests.latecomer.test_federation import config

def mine(number, frame):
    print("mine", flush=True)

signal.signal(signal.SIGTERM, mine)
stop = lambda address: os.kill(os.getpid(), signal.SIGINT)
results = latecomer.serve(config(Path({str(tmp_path)!r})), on_listening=stop)
print(results.summary["ended"], flush=True)
assert "torch" not in sys.modules
os.kill(os.getpid(), signal.SIGTERM)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("as before")
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["None", "mine", "as before", ""]
    assert done.stderr == ""


def test_threads_leave_the_handlers_of_signals_alone(tmp_path: Path) -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with ThreadPoolExecutor() as threads:
        gone = threads.submit(
            latecomer.join, "127.0.0.1:1", APP, state=tmp_path / "s", give_up=0.1
        )
        with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1 does not answer"):
            gone.result(PATIENCE)
    assert before == [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]


async def _serve_in_a_loop() -> None:
    latecomer.serve({})


def test_a_workload_makes_version_0_as_the_command_does(tmp_path: Path) -> None:
    settings = config(tmp_path, seed=3)
    write_model(APP, tmp_path / "model.safetensors", 3)
    settings["model"] = str(tmp_path / "first.safetensors")
    with pytest.raises(JournalError):  # before it serves
        latecomer.serve(settings, untested, must_resume=True)
    ours, theirs = tmp_path / "first.safetensors", tmp_path / "model.safetensors"
    assert ours.read_bytes() == theirs.read_bytes()
    ours.write_bytes(b"mine")
    with pytest.raises(JournalError):
        latecomer.serve(settings, untested, must_resume=True)
    assert ours.read_bytes() == b"mine"


def _join(folder: Path, **wrong: Any) -> None:
    untyped.join(**{"address": "h", "workload": APP, "state": folder, **wrong})


def test_a_function_that_fails_ends_the_server_and_the_run_can_go_on(
    tmp_path: Path,
) -> None:
    def fail(_: str) -> None:
        raise ValueError("no clients today")

    settings = config(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="no clients today"):
            latecomer.serve(settings, on_listening=fail)
        assert not [one for one in threading.enumerate() if one.name == "core"]


def test_a_run_whose_port_was_taken_can_be_tried_again(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = config(tmp_path)
        settings["server"]["listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        for _ in range(2):
            with pytest.raises(UnavailableError, match="the port is taken"):
                latecomer.serve(settings)


def test_a_client_that_cannot_be_made_leaves_its_folder_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise WorkloadError("no member")

    with monkeypatch.context() as patch:
        patch.setattr("fedclient.commands.Membership", fail)
        for call in latecomer.join, latecomer.evaluate:
            with pytest.raises(WorkloadError, match="no member"):
                call("127.0.0.1:1", numpy_app.workload, state=tmp_path / "state")
    ClientStore(tmp_path / "state").close()


WRONG: list[tuple[Any, type[LatecomerError], str]] = [
    (lambda f: untyped.serve(7), ConfigError, "config: expected the path of a YAML"),
    (
        lambda f: untyped.serve(config(f), "my_app:workload"),
        WorkloadError,
        "got str; a name belongs into the config, as app:",
    ),
    (lambda f: latecomer.serve(f / "none.yaml"), ConfigError, "none.yaml"),
    (
        lambda f: untyped.serve(config(f), log="loud"),
        ConfigError,
        "log: expected 'text', 'json' or None, got 'loud'",
    ),
    (
        lambda f: latecomer.serve(config(f), must_resume=True),
        JournalError,
        "there is no run here to resume",
    ),
    (
        lambda f: untyped.serve(config(f), on_listening=3),
        ConfigError,
        "on_listening: expected a function, got 3",
    ),
    *[
        (partial(_join, **wrong), ConfigError, sentence)
        for wrong, sentence in (
            ({"address": 8443}, "address: expected HOST or HOST:PORT, got 8443"),
            ({"state": None}, "state: expected the path of a folder, got None"),
            ({"name": 3}, "name: expected a text, got 3"),
            ({"index": "0"}, "index: expected a whole number, got '0'"),
            ({"count": True}, "count: expected a whole number, got True"),
            ({"data": "site=7"}, "data: expected values by name, got 'site=7'"),
            ({"choose": "lr"}, "choose: expected values by name, got 'lr'"),
            ({"updates": "3"}, "updates: expected a whole number, got '3'"),
            ({"updates": 0}, "updates: expected 1 or more, got 0"),
            ({"give_up": "x"}, "give_up: expected seconds from 0 on, got 'x'"),
            ({"give_up": -1}, "give_up: expected seconds from 0 on, got -1"),
        )
    ],
    (
        lambda f: untyped.evaluate(3, APP, state=f),
        ConfigError,
        "address: expected HOST or HOST:PORT, got 3",
    ),
    (lambda f: asyncio.run(_serve_in_a_loop()), ConfigError, "asyncio.to_thread"),
    (
        lambda f: latecomer.join("h", untested, state=f, index=2, count=2),
        ConfigError,
        "index=2 and count=2: expected an index from 0 on, below the count",
    ),
    (
        lambda f: latecomer.join("h", untested, state=f, workers=2),
        ConfigError,
        "give the name in place of the workload",
    ),
    (
        lambda f: untyped.join("h", 7, state=f),
        WorkloadError,
        "workload: expected a Workload, a TorchWorkload or the name of an app, got int",
    ),
    (
        lambda f: latecomer.join("h", APP, state=f, pace="soon"),
        ConfigError,
        "pace soon: expected seconds",
    ),
    (lambda f: latecomer.join("h:x", APP, state=f), ConfigError, "expected HOST or"),
    (
        lambda f: latecomer.evaluate("127.0.0.1:1", APP),
        ConfigError,
        "state is missing",
    ),
    (
        lambda f: latecomer.evaluate("127.0.0.1:1", untested, state=f),
        WorkloadError,
        "has no test_data",
    ),
]


@pytest.mark.parametrize(("call", "kind", "sentence"), WRONG)
def test_a_mistake_is_an_error_of_this_platform_in_a_sentence(
    tmp_path: Path, call: Any, kind: type[LatecomerError], sentence: str
) -> None:
    with pytest.raises(kind) as found:
        call(tmp_path)
    assert sentence in str(found.value)
