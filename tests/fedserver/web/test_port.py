"""The HTTP port of a server that runs: what it answers, when, and for how long."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import ConfigError, DiskError, UnavailableError
from fedrun.config import parse_config
from fedserver.operator.remote import ask_status
from fedserver.view.web.metrics import METRICS
from fedserver.view.web.port import CONNECTIONS, require_packages
from tests.peer import CALL, Peer, packed
from tests.served import Served, ones, served, settings, until

pytestmark = pytest.mark.needs("uvicorn", "starlette", "prometheus_client")
WEB: dict[str, Any] = {"server": {"web": "127.0.0.1:0"}}
GOOD = packed(ones())
BY_NAME = {metric.name: metric for metric in METRICS}


class Heard(NamedTuple):
    status: int
    text: str
    kind: str


def get(server: Served, path: str, accept: str = "*/*") -> Heard:
    """What the port answers."""
    web = server.server.web
    assert web is not None
    request = urllib.request.Request(
        f"http://{web.address}{path}", headers={"Accept": accept}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            kind = answer.headers["Content-Type"]
            return Heard(answer.status, answer.read().decode(), kind)
    except urllib.error.HTTPError as error:
        return Heard(error.code, error.read().decode(), "")


def samples(text: str) -> dict[str, float]:
    """The samples of an exposition, by name and labels."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_a_server_that_works_is_alive_and_ready(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        assert get(server, "/healthz")[:2] == (200, "ok\n")
        assert get(server, "/readyz")[:2] == (200, "ready\n")
        assert get(server, "/").status == 404


def test_the_metrics_are_those_of_the_list(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        with Peer(server.address, "ann") as ann:
            ann.pull()
            ann.push(GOOD)
        text = get(server, "/metrics").text
    lines = text.splitlines()
    kinds = dict(line.split()[2:] for line in lines if line.startswith("# TYPE fed_"))
    assert kinds == {metric.name: metric.kind for metric in METRICS}
    helped = [line.split()[2] for line in lines if line.startswith("# HELP fed_")]
    assert helped == [metric.name for metric in METRICS]
    for name in samples(text):
        bare, _, labels = name.partition("{")
        names = {part.partition("=")[0] for part in labels.rstrip("}").split(",")}
        if bare in BY_NAME:
            assert names - {""} == set(BY_NAME[bare].labels), name


def test_promtool_finds_nothing_wrong_with_the_metrics(tmp_path: Path) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not there: it is in the Debian package prometheus")
    with served(tmp_path, **WEB) as server:
        text = get(server, "/metrics").text
    told = subprocess.run(
        [tool, "check", "metrics"],
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, b"")


def test_no_metric_names_a_client(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        with Peer(server.address, "secret-hospital") as peer:
            peer.pull()
            peer.push(GOOD)
            peer.push(b"junk")
        text = get(server, "/metrics").text
    assert "secret-hospital" not in text
    assert peer.cid not in text
    assert not [
        m for m in METRICS if {"client", "cid", "name"} & {*m.labels} - {"name"}
    ]


def test_metrics_status_and_lines_tell_the_same(tmp_path: Path) -> None:
    with served(tmp_path, algorithm={"buffer": 2}, **WEB) as server:
        with Peer(server.address, "ann") as ann:
            for _ in range(5):
                ann.pull()
                ann.push(GOOD)
            ann.push(b"junk")
        told = samples(get(server, "/metrics").text)
        status = ask_status(server.address)
        lines = server.lines("decided")
    assert told['fed_updates_total{verdict="accepted"}'] == 5
    assert status["updates"] == {"accepted": 5, "rejected_malformed": 1}
    for verdict, count in status["updates"].items():
        assert told[f'fed_updates_total{{verdict="{verdict}"}}'] == count
        assert sum(line["verdict"] == verdict for line in lines) == count
    assert told["fed_version"] == status["version"] == 2
    assert [told["fed_buffer_updates"], told["fed_buffer_size_updates"]] == (
        status["buffer"]
    )
    assert told["fed_update_staleness_versions_count"] == 5
    assert told['fed_clients{state="idle"}'] == 1
    assert told["fed_journal_lag_records"] == 0
    up = sum(row["framed"] for row in status["traffic"]["lanes"] if row["way"] == "up")
    assert 0 < told['fed_bytes_total{direction="up"}'] <= up  # the status came later
    assert "fed_evaluated_version" not in told
    assert told['fed_updates_total{verdict="rejected_stale"}'] == 0
    states = "fed_stalled", "fed_paused", "fed_ended", "fed_ready", "fed_disk_fails"
    assert [told[state] for state in states] == [0, 0, 0, 1, 0]
    assert [told[each] for each in told if each.startswith("fed_run_info")] == [1]


def test_the_newest_evaluation_is_among_the_metrics(tmp_path: Path) -> None:
    evaluate = {"evaluators": ["judge"], "every_versions": 1}
    named: dict[str, Any] = {"evaluate": evaluate}
    with served(tmp_path, **named, **WEB) as server:
        judge = Peer(server.address, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        with Peer(server.address, "ann") as ann:
            for accuracy in (0.25, 0.5, 0.75):
                judge.pull()
                model = pb.ModelName(epoch=judge.epoch, version=judge.version)
                values = {"accuracy": accuracy}
                request = pb.ReportRequest(key=judge.key, model=model, values=values)
                judge.stub.report(request, timeout=CALL)
                ann.pull()
                ann.push(GOOD)
        told = samples(get(server, "/metrics").text)
        judge.channel.close()
    assert told["fed_evaluated_version"] == 2
    assert told['fed_evaluated_metric{name="accuracy"}'] == 0.75


def test_counters_go_on_over_a_restart(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path, **WEB))
    counted: list[dict[str, float]] = []
    for _ in range(2):
        with run, Peer(run.address, "ann") as ann:
            counted.append(samples(get(run, "/metrics").text))
            ann.seq = len(counted) - 1
            ann.pull()
            ann.push(GOOD)
    with run:
        counted.append(samples(get(run, "/metrics").text))
    accepted = [each['fed_updates_total{verdict="accepted"}'] for each in counted]
    assert accepted == [0, 1, 2]
    assert [each["fed_version"] for each in counted] == [0, 1, 2]
    assert counted[2]["fed_version_timestamp_seconds"] > 1e9
    totals = [name for name in counted[0] if "_total" in name and "fed_" in name]
    assert all(counted[2][name] >= counted[0][name] for name in totals)
    assert counted[2]['fed_bytes_total{direction="up"}'] > 0


def test_openmetrics_is_spoken_too(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        heard = get(server, "/metrics", "application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in heard.kind
    assert heard.text.endswith("# EOF\n")


def test_a_server_whose_disk_fails_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, **WEB) as server, Peer(server.address, "ann") as ann:
        journal = server.run.journal
        append = journal.append

        def full(records: Any) -> int:
            raise DiskError("no space left on the device")

        monkeypatch.setattr(journal, "append", full)
        ann.pull()
        push = threading.Thread(target=lambda: ann.push(GOOD))
        push.start()
        until(lambda: get(server, "/readyz").status == 503, "it is not ready")
        heard = get(server, "/readyz")
        assert heard.text == (
            "the disk is full or fails: no work is taken until it works again\n"
        )
        told = samples(get(server, "/metrics").text)
        assert (told["fed_disk_fails"], told["fed_ready"]) == (1, 0)
        assert told["fed_journal_lag_records"] >= 1
        assert told["fed_journal_lag_seconds"] > 0
        assert get(server, "/healthz").status == 200  # to restart it would not help
        monkeypatch.setattr(journal, "append", append)
        push.join()
        until(lambda: get(server, "/readyz").status == 200, "it is ready again")
        assert samples(get(server, "/metrics").text)["fed_journal_lag_records"] == 0


def test_a_server_that_drains_says_so_and_the_port_ends_with_it(tmp_path: Path) -> None:
    config = settings(tmp_path, timeouts={"drain": 10.0, "linger": 0.0}, **WEB)
    with Served(tmp_path, config) as server, Peer(server.address, "ann") as ann:
        ann.pull()
        release = threading.Event()

        def never() -> Any:
            release.wait(20)  # a push that says nothing keeps the drain open
            yield from ()

        call = ann.stub.push.future(never())
        until(lambda: get(server, "/healthz").status == 200, "it answers")
        server._loop.call_soon_threadsafe(server.server.stop)
        until(lambda: get(server, "/readyz").status == 503, "it is not ready")
        assert "draining" in get(server, "/readyz").text
        release.set()
        server.wait()
        call.cancel()
        with pytest.raises(urllib.error.URLError, match="refused"):
            get(server, "/healthz")


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=r"the port is taken .*server\.web"):
            Served(tmp_path, settings(tmp_path, server={"web": listen})).__enter__()


def test_a_client_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        assert server.server.web is not None
        host, _, port = server.server.web.address.rpartition(":")
        slow = socket.create_connection((host, int(port)))
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and no more
        assert get(server, "/healthz").status == 200
        server.stop()
        slow.close()


def connected(server: Served, said: bytes = b"") -> socket.socket:
    """A connection to the port on which this was said."""
    assert server.server.web is not None
    host, _, port = server.server.web.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(said)
    return connection


def test_connections_that_say_nothing_make_room_for_others(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        before = samples(get(server, "/metrics").text)["process_open_fds"]
        idle = [connected(server) for _ in range(3 * CONNECTIONS)]
        idle[0].settimeout(20)
        with suppress(ConnectionResetError):
            assert idle[0].recv(1) == b"", "the oldest is closed"
        assert get(server, "/readyz").status == 200
        here = samples(get(server, "/metrics").text)["process_open_fds"]
        assert here - before - len(idle) <= CONNECTIONS + 8  # ours count as well
        for connection in idle:
            connection.close()


def test_no_connection_lasts_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.view.web.port.LONGEST", 0.2)
    with served(tmp_path, **WEB) as server:
        for said in (b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"):
            connection = connected(server, said)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
            connection.close()
        assert get(server, "/healthz").status == 200


def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, **WEB) as server:
        connection = connected(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: ")
        with suppress(ConnectionError):
            for _ in range(64):
                connection.sendall(b"a" * (1 << 14))
        with suppress(ConnectionResetError):
            assert connection.recv(64).startswith((b"HTTP/1.1 4", b""))
        connection.close()
        assert get(server, "/healthz").status == 200


@pytest.mark.parametrize("listen", ["9090", "127.0.0.1", "127.0.0.1:x", "h:99999"])
def test_an_address_that_is_none_is_refused_with_the_config(
    tmp_path: Path, listen: str
) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        settings(tmp_path, server={"web": listen})


def test_without_the_extra_one_sentence_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedrun.optional.is_installed", lambda name: name != "uvicorn")
    with pytest.raises(ConfigError) as caught:
        require_packages()
    assert str(caught.value) == (
        "server.web needs the package uvicorn: pip install 'latecomer[web]'"
    )


def test_nothing_is_imported_where_no_port_is_configured() -> None:
    code = (
        "import sys, fedserver.serving, json; print(json.dumps([m for m in "
        "('uvicorn', 'starlette', 'prometheus_client', 'opentelemetry') "
        "if m in sys.modules]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert json.loads(told.stdout) == []


def test_the_config_has_no_port_by_default() -> None:
    assert parse_config({}).server.web is None
