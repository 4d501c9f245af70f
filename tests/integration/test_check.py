"""The preflight of a client, by real processes: each failure is one clear sentence."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from fedwire.service import SERVICE, handlers
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tests.fedclient.liar import Liar
from tests.integration.conftest import APP
from tools.local import LocalFederation

pytestmark = pytest.mark.processes
Make = Callable[..., LocalFederation]
ALL = {
    *("name", "port", "language", "server", "app", "state", "data", "protocol"),
    *("run", "model", "package", "enrolment", "step", "upload"),
}


def checked(
    fed: LocalFederation, *options: str, app: str = "", host: str = ""
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Runs the preflight; returns its exit code, and its findings by name."""
    words = ["check", host or fed.address, "--app", app or fed.app, "--json", *options]
    done = fed.command("fedclient", *words)
    assert "Traceback" not in done.stderr, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] is (done.returncode == 0)
    assert all("\n" not in each["text"] for each in told["checks"])
    return done.returncode, {each["check"]: each for each in told["checks"]}


def trainers(fed: LocalFederation) -> list[str]:
    clients = fed.status()["clients"]
    return [each["name"] for each in clients if each["role"] == "trainer"]


def failed(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {n: each["text"] for n, each in found.items() if each["level"] == "failed"}


def test_a_client_that_can_join_is_told_so_and_leaves_nothing(
    federation: Make, tmp_path: Path
) -> None:
    fed = federation()
    fed.server()
    state = tmp_path / "state"
    options = "--state", str(state), "--name", "a", "--index", "1", "--count", "3"
    code, found = checked(fed, *options)
    assert (code, failed(found)) == (0, {})
    assert set(found) == ALL
    assert found["data"]["samples"] > 0
    assert sum(found["data"]["labels"]) == found["data"]["samples"]
    assert found["step"]["seconds"] > 0
    assert found["server"]["round_trip"] > 0
    assert found["upload"]["nbytes"] > 0
    assert "not counted" in found["upload"]["text"]
    assert not state.exists()
    status = fed.status()
    assert (trainers(fed), status["version"], status["updates"]) == ([], 0, {})
    enrolled = [line["role"] for line in fed.events() if line["event"] == "enrolled"]
    assert set(enrolled) <= {"evaluator"}, "the server's own"
    assert not [line for line in fed.events() if line["event"] == "decided"]
    client = fed.client(1, 3, "--updates", "1", name="a")  # the name was not taken
    assert client.wait() == 0, client.tail()


def test_a_table_says_what_is_wrong_and_what_to_do(federation: Make) -> None:
    fed = federation()
    fed.server()
    fine = fed.command("fedclient", "check", fed.address, "--app", fed.app)
    assert fine.returncode == 0
    assert all(line.startswith("ok") for line in fine.stdout.splitlines())
    fed.children["server"].stop()
    done = fed.command("fedclient", "check", fed.address, "--app", fed.app)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    (line,) = [n for n, text in enumerate(lines) if text.startswith("failed")]
    assert "nothing listens at" in lines[line]
    assert "hint: is the server started?" in lines[line + 1]
    assert any(text.startswith("ok      data") for text in lines), "it goes on"


def test_another_model_is_named_by_its_first_tensor(
    federation: Make, tmp_path: Path
) -> None:
    fed = federation()
    fed.server()
    other = tmp_path / "other.py"
    other.write_text(APP.read_text().replace('"b": np.zeros(10)', '"c": np.zeros(10)'))
    code, found = checked(fed, app=f"{other}:workload")
    assert code == 1
    assert set(failed(found)) == {"model"}
    assert "'c'" in failed(found)["model"] or "'b'" in failed(found)["model"]
    assert found["step"]["level"] == "skipped"


@pytest.mark.parametrize(
    ("change", "what", "sentence"),
    [
        (
            ("mine = rows(client)", "raise ValueError('the disk is empty')"),
            "data",
            "train_data raised ValueError: the disk is empty",
        ),
        (("mine = rows(client)", "mine = rows(client)[:0]"), "data", "no samples"),
        (
            (
                "p[true] -= 1",
                "raise RuntimeError('no such layer')",
            ),
            "step",
            "no such layer",
        ),
        (("return x[mine], y[mine]", "return None"), "data", "train_data"),
    ],
)
def test_user_code_that_fails_is_told_in_a_sentence(
    federation: Make, tmp_path: Path, change: tuple[str, str], what: str, sentence: str
) -> None:
    fed = federation()
    fed.server()
    broken = tmp_path / "broken.py"
    broken.write_text(APP.read_text().replace(*change))
    code, found = checked(fed, app=f"{broken}:workload")
    assert code == 1
    assert set(failed(found)) == {what}
    assert sentence in failed(found)[what]


def test_names_states_and_choices_that_do_not_fit(
    federation: Make, tmp_path: Path
) -> None:
    fed = federation()
    fed.server()
    client = fed.client(0, 2, name="a")
    fed.wait_until(lambda: bool(fed.status()["version"]), "it trains")
    _, found = checked(fed, "--name", "a")
    assert "the name 'a' belongs to another client" in failed(found)["name"]
    state = str(fed.folder / "state-a")
    _, found = checked(fed, "--state", state)
    assert "in use by another client" in failed(found)["state"]
    client.stop()
    code, found = checked(fed, "--state", state, "--index", "0", "--count", "2")
    assert (code, failed(found)) == (0, {}), "its own name is free for it"
    _, found = checked(fed, "--choose", "batch=8")
    assert "lets the client choose nothing" in failed(found)["step"]
    taken = tmp_path / "file"
    taken.write_text("")
    _, found = checked(fed, "--state", str(taken / "state"))
    assert "cannot be made" in failed(found)["state"]


def test_a_run_that_is_not_that_of_the_state(federation: Make) -> None:
    fed, other = federation("fed"), federation("other")
    fed.server()
    other.server()
    client = fed.client(0, 2, "--updates", "9999", name="a")
    fed.wait_until(lambda: bool(fed.status()["version"]), "it trains")
    client.stop()
    code, found = checked(other, "--state", str(fed.folder / "state-a"))
    assert code == 1
    assert "the state directory belongs to run" in failed(found)["run"]


def served_by(*services: Any) -> tuple[grpc.Server, str]:
    server = grpc.server(ThreadPoolExecutor(4))
    for add in services:
        add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def test_servers_that_are_no_federation_or_an_old_one(federation: Make) -> None:
    fed = federation()
    server, host = served_by()
    _, found = checked(fed, host=host)
    assert "speaks gRPC, but serves no federation" in failed(found)["server"]
    server.stop(None).wait()

    serving = health.HealthServicer()
    serving.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
    server, host = served_by(
        lambda made: made.add_generic_rpc_handlers((handlers(Liar({})),)),
        lambda made: health_pb2_grpc.add_HealthServicer_to_server(serving, made),
    )
    _, found = checked(fed, host=host)
    assert "too old to be asked by fedclient check" in failed(found)["protocol"]
    serving.set(SERVICE, health_pb2.HealthCheckResponse.NOT_SERVING)
    _, found = checked(fed, host=host)
    assert "is about to stop" in failed(found)["server"]
    server.stop(None).wait()


def test_an_app_that_is_not_there_does_not_hide_the_server(federation: Make) -> None:
    fed = federation()
    fed.server()
    code, found = checked(fed, app="no_such_app:workload")
    assert code == 1
    assert set(failed(found)) == {"app"}
    assert found["server"]["level"] == "ok"
