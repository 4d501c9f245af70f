"""The preflight of a client: each failure is one clear sentence."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from fedwire.connect import SERVICE
from fedwire.service import handlers
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tests.connect_proxy import ConnectProxy
from tests.fedclient.liar import Liar
from tests.integration.typed import desk, typed
from tests.peer import Peer
from tests.served import Served, served

APP = """
import numpy as np
from fedcore.workload import Workload

def initial(rng):
    return {"w": np.zeros(100)}

def gradient(params, x, y):
    error = x @ params["w"] - y
    return float((error**2).mean()), {"w": x.T @ error / len(y)}

def train_data(client):
    return np.ones((8, 100), np.float32), np.ones(8, np.float32)

workload = Workload(initial=initial, gradient=gradient, train_data=train_data)
"""
Findings = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with desk(tmp_path, monkeypatch):
        yield


def checked(host: str, *options: str, app: str = APP) -> tuple[int, Findings]:
    """Types the command; returns its exit code, and its findings by name."""
    Path("mine.py").write_text(app)
    words = [
        "fedclient",
        "check",
        host,
        "--app",
        "mine.py:workload",
        "--json",
        *options,
    ]
    ended = typed(*words)
    told = json.loads(ended.out)
    assert told["ok"] is (ended.status == 0)
    assert all("\n" not in each["text"] for each in told["checks"])
    return ended.status, {each["check"]: each for each in told["checks"]}


def failed(found: Findings) -> dict[str, str]:
    return {n: each["text"] for n, each in found.items() if each["level"] == "failed"}


def untouched(server: Served) -> bool:
    return not server.state.clients and not server.state.roster.owners


def test_nothing_is_wrong_and_nothing_is_left(server: Served) -> None:
    status, found = checked(server.address, "--state", "state", "--name", "a")
    assert (status, failed(found)) == (0, {})
    assert "not counted" in found["upload"]["text"]
    assert found["data"]["samples"] == 8
    assert untouched(server)
    assert server.lines("decided") == []
    assert not Path("state").exists()


def test_another_model_is_named_by_its_first_tensor(server: Served) -> None:
    status, found = checked(server.address, app=APP.replace('"w"', '"v"'))
    assert status == 1
    assert set(failed(found)) == {"model"}
    assert "'v'" in failed(found)["model"] or "'w'" in failed(found)["model"]
    assert found["step"]["level"] == found["upload"]["level"] == "skipped"
    assert untouched(server)


@pytest.mark.parametrize(
    ("change", "what", "sentence"),
    [
        (
            (
                "    return np.ones((8",
                "    raise ValueError('no disk')\n    return ((8",
            ),
            "data",
            "train_data raised ValueError: no disk",
        ),
        (
            ("(8, 100), np.float32), np.ones(8", "(0, 100)), np.ones(0"),
            "data",
            "no samples",
        ),
        (
            (
                "return np.ones((8, 100), np.float32), np.ones(8, np.float32)",
                "return 1",
            ),
            "data",
            "",
        ),
        (
            ("    error =", "    raise RuntimeError('no layer')\n    error ="),
            "step",
            "no layer",
        ),
        (("float((error**2).mean())", "float('nan')"), "", ""),
        (("x.T @ error", "x.T @ error * np.nan"), "step", ""),
        (("import numpy as np", "import no_such_thing"), "app", "'no_such_thing'"),
    ],
)
def test_what_the_users_code_does_wrong_is_told(
    server: Served, change: tuple[str, str], what: str, sentence: str
) -> None:
    assert change[0] in APP
    status, found = checked(server.address, app=APP.replace(*change))
    assert set(failed(found)) == ({what} if what else set())
    assert status == bool(what)
    if what:
        assert sentence in failed(found)[what]
    assert found["server"]["level"] == "ok", "the server is looked at all the same"
    assert untouched(server)


def test_a_name_that_is_taken_and_a_state_that_owns_it(server: Served) -> None:
    join = ["fedclient", "join", server.address, "--app", "mine.py:workload", "--quiet"]
    Path("mine.py").write_text(APP)
    assert typed(*join, "--state", "a", "--name", "a", "--updates", "1").status == 0
    with Peer(server.address, "other"):
        _, found = checked(server.address, "--name", "other")
        assert "the name 'other' belongs to another client" in failed(found)["name"]
        _, found = checked(server.address, "--name", "a", "--state", "b")
        assert "the name 'a' belongs to another client" in failed(found)["name"]
        status, found = checked(server.address, "--state", "a")
        assert (status, failed(found)) == (0, {})
        assert len(server.state.clients) == 2


def test_a_state_of_another_run(server: Served, tmp_path: Path) -> None:
    Path("mine.py").write_text(APP)
    join = ["fedclient", "join", server.address, "--app", "mine.py:workload", "--quiet"]
    (tmp_path / "two").mkdir()
    with served(tmp_path / "two", stop={"updates": 1}) as other:
        typed(*join[:2], other.address, *join[3:], "--state", "a", "--give-up", "20")
    status, found = checked(server.address, "--state", "a")
    assert status == 1
    assert "the state directory belongs to run" in failed(found)["run"]


def test_choices_states_and_options_that_do_not_fit(server: Served) -> None:
    _, found = checked(server.address, "--choose", "batch=8")
    assert "lets the client choose nothing" in failed(found)["step"]
    Path("file").write_text("")
    _, found = checked(server.address, "--state", "file/state")
    assert "cannot be made" in failed(found)["state"]
    ended = typed("fedclient", "check", server.address, "--app", "x", "--index", "3")
    assert ended.sentence(78).startswith("--index 3 of --count 1")


def test_another_protocol(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedclient.wire.connection.PROTOCOLS", (9,))
    _, found = checked(server.address)
    assert failed(found) == {"protocol": "this server speaks protocol 4, the client 9"}


def test_conditions_that_do_not_hold_are_a_warning(server: Served) -> None:
    Path("device.yaml").write_text("unmetered: {command: ['false']}")
    status, found = checked(server.address, "--conditions", "device.yaml")
    assert status == 0
    assert found["conditions"]["level"] == "warning"
    assert "would wait now: unmetered" in found["conditions"]["text"]


def test_nobody_listens_and_people_are_told_what_to_do(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        host = server.address
    Path("mine.py").write_text(APP)
    ended = typed("fedclient", "check", host, "--app", "mine.py:workload")
    assert ended.status == 1
    lines = ended.out.splitlines()
    (at,) = [n for n, text in enumerate(lines) if text.startswith("failed")]
    assert f"nothing listens at {host}" in lines[at]
    assert "hint: is the server started?" in lines[at + 1]
    assert any(text.startswith("ok      data") for text in lines), "it goes on"


def test_a_check_takes_the_way_of_a_client_through_the_proxy_or_past_it(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.address.rpartition(":")[2]
    far = f"fed.example.org:{port}"
    with ConnectProxy(server.address) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
        status, found = checked(server.address)  # this machine is reached directly
        assert (status, failed(found), proxy.asked) == (0, {}, [])
        status, found = checked(far, "--plaintext")
        assert (status, failed(found)) == (0, {})
        assert set(proxy.asked) == {far}
        assert "through the proxy http://127.0.0.1" in found["port"]["text"]
        ended = typed(
            *("fedclient", "join", far, "--plaintext", "--app", "mine.py:workload"),
            *("--state", "state", "--name", "a", "--updates", "1"),
        )
        assert ended.status == 0
        assert server.state.applied == 1
        proxy.refusal = "403 Forbidden"
        status, found = checked(far, "--plaintext")
        assert "proxy http://127.0.0.1" in failed(found)["port"]
        assert f"no_proxy={far.partition(':')[0]} goes around" in found["port"]["hint"]
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    ended = typed("fedclient", "check", far, "--plaintext", "--app", "mine.py:workload")
    assert ended.status == 1
    assert "http_proxy: expected a proxy http://HOST:PORT" in ended.out


@contextmanager
def other_server(*services: Any) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    for add in services:
        add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_servers_that_are_no_federation_or_an_old_one() -> None:
    with other_server() as host:
        _, found = checked(host)
        assert "speaks gRPC, but serves no federation" in failed(found)["server"]
    serving = health.HealthServicer()
    serving.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
    with other_server(
        lambda made: made.add_generic_rpc_handlers((handlers(Liar({})),)),
        lambda made: health_pb2_grpc.add_HealthServicer_to_server(serving, made),
    ) as host:
        _, found = checked(host)
        assert "too old to be asked by fedclient check" in failed(found)["protocol"]
        serving.set(SERVICE, health_pb2.HealthCheckResponse.NOT_SERVING)
        _, found = checked(host)
        assert "is about to stop" in failed(found)["server"]


def test_what_a_hostile_server_says_is_shown_in_bounds() -> None:
    hostile = "\x1b[2J\u202e\n" + "x" * 100_000
    serving = health.HealthServicer()
    serving.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)

    def check(request: Any, context: Any) -> pb.CheckReply:
        about = "protocol", "name", hostile
        objections = [pb.Objection(about=each, text=hostile) for each in about]
        return pb.CheckReply(
            package=hostile, objections=objections, enrol=pb.EnrolReply(run_id=hostile)
        )

    says = Liar({"check": check})
    with other_server(
        lambda made: made.add_generic_rpc_handlers((handlers(says),)),
        lambda made: health_pb2_grpc.add_HealthServicer_to_server(serving, made),
    ) as host:
        Path("mine.py").write_text(APP)
        ended = typed("fedclient", "check", host, "--app", "mine.py:workload")
    assert ended.status == 1
    assert all(line.isprintable() for line in ended.out.splitlines())
    assert len(ended.out) < 20_000
    assert "\\x1b[2J\\u202e\\nxxx" in ended.out
