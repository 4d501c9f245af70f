"""What a server tells of itself: to a shell, to a terminal, to a log."""

import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner, Result
from fedwire.connect import OPTIONS, SERVICE
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from fedcore.coordinator.events import Failed
from fedcore.errors import JournalError, ProtocolError, UnavailableError
from fedrun.cli.exit_codes import exit_code
from fedserver.calls.listening import OPTIONS as SERVER_OPTIONS
from fedserver.cli import main
from fedserver.operator.health import ask_health
from fedserver.operator.remote import ask_status
from fedserver.view.json_log import JsonLog
from fedserver.view.live import LiveView, sparkline
from fedserver.view.progress import Progress
from fedserver.view.status import status_table
from tests.fedclient.liar import lying
from tests.peer import CALL, Peer, packed
from tests.served import Served, ones, settings

GOOD = packed(ones())


def shown(what: RenderableType) -> str:
    """What a terminal shows."""
    console = Console(file=io.StringIO(), width=120)
    console.print(what)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def work(server: Served, name: str = "ann") -> None:
    """A client delivers one good update and a bad one."""
    with Peer(server.address, name) as peer:
        peer.pull()
        peer.push(GOOD)
        peer.push(b"junk")


def test_the_status_tells_what_has_happened(server: Served) -> None:
    work(server)
    told = ask_status(server.address)
    assert told["run"] == server.run.run_id
    assert told["version"] == 1
    assert told["updates"] == {"accepted": 1, "rejected_malformed": 1}
    assert told["ended"] is None
    [client] = told["clients"]
    assert (client["name"], client["accepted"], client["refused"]) == ("ann", 1, 1)
    assert client["payload_up"] == len(GOOD) + len(b"junk")
    assert "ann" in shown(status_table(told))


def test_the_status_is_told_by_the_folder_of_a_run(tmp_path: Path) -> None:
    config = settings(tmp_path)
    folder, run = config.server.journal, Served(tmp_path, config)

    def asked(target: Path) -> Result:
        return CliRunner().invoke(main, ["status", str(target), "--json"])

    with run:
        work(run)
        told = json.loads(asked(folder).stdout)
        assert (told["run"], told["version"]) == (run.run.run_id, 1)
        assert [client["name"] for client in told["clients"]] == ["ann"]
    over = asked(folder)
    assert over.exit_code == exit_code(JournalError(""))
    assert over.stderr == (
        f"error: {folder}: no server has this run; fedserver report {folder} tells how "
        f"it stands, and fedserver journal show {folder} prints its records\n"
    )
    nowhere = asked(tmp_path / "nowhere")
    assert nowhere.exit_code == exit_code(JournalError(""))
    assert nowhere.stderr == f"error: {tmp_path / 'nowhere'}: no journal here\n"


def test_the_status_shows_the_shares_of_clients_and_labels(server: Served) -> None:
    work(server)
    told = ask_status(server.address)
    assert "labels" not in shown(status_table(told))  # nobody told any
    told["coverage"]["labels"] = {
        str(label): {"share": (1 + label) / 120, "recent": 0.0, "version": 1}
        for label in range(15)
    }
    said = shown(status_table(told))
    assert "labels" in said
    words = " ".join(said.split())
    assert "labels 14: 12.5%, 13: 11.7%" in words
    assert "3: 3.3% and 3 more" in words
    row, *_ = [line for line in said.splitlines() if line.split()[:1] == ["ann"]]
    assert row.count("100.0%") == 2  # of all updates, and lately


def test_the_commands_ask_a_running_server(server: Served) -> None:
    asked = CliRunner().invoke(main, ["status", server.address, "--json"])
    assert json.loads(asked.stdout)["run"] == server.run.run_id
    assert (
        server.run.run_id in CliRunner().invoke(main, ["status", server.address]).stdout
    )
    healthy = CliRunner().invoke(main, ["healthcheck", server.address])
    assert (healthy.exit_code, healthy.stdout) == (0, "serving\n")


@pytest.mark.parametrize("command", ["status", "healthcheck"])
def test_a_server_that_is_not_there_is_unavailable(
    server: Served, command: str
) -> None:
    server.stop()
    asked = CliRunner().invoke(main, [command, server.address])
    assert asked.exit_code == 69
    assert f"error: {server.address} does not answer" in asked.stderr
    assert len(asked.stderr.splitlines()) == 1


@pytest.mark.parametrize("host", ["here:x", ":1"])
def test_an_address_that_is_none_is_a_mistake_of_the_caller(host: str) -> None:
    asked = CliRunner().invoke(main, ["healthcheck", host])
    assert asked.exit_code == 78
    assert asked.stderr == f"error: {host}: expected HOST or HOST:PORT\n"


def test_a_server_that_drains_is_not_healthy(server: Served) -> None:
    assert ask_health(server.address) == "serving"
    server.stop()
    with pytest.raises(UnavailableError):
        ask_health(server.address)


@pytest.mark.parametrize("status", health_pb2.HealthCheckResponse.ServingStatus.keys())
def test_the_health_service_is_read_as_its_messages_are_defined(status: str) -> None:
    service = health.HealthServicer()
    code = health_pb2.HealthCheckResponse.ServingStatus.Value(status)
    service.set(SERVICE, code)
    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        health_pb2_grpc.add_HealthServicer_to_server(service, server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        if status == "SERVING":
            assert ask_health(address) == "serving"
        else:
            said = status.lower().replace("_", " ")
            with pytest.raises(UnavailableError, match=f"^{address} is {said}$"):
                ask_health(address)
        server.stop(None).wait()


def test_a_probe_imports_little_since_it_runs_every_few_seconds() -> None:
    code = (
        "import sys; import fedserver.cli, fedserver.operator.health; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    heavy = {"numpy", "pydantic", "rich", "yaml", "plotly", "google", "sqlite3"}
    assert not heavy.intersection(done.stdout.split())


def test_the_pings_of_clients_are_welcome() -> None:
    client, server = dict(OPTIONS), dict(SERVER_OPTIONS)
    least = int(server["grpc.http2.min_recv_ping_interval_without_data_ms"])
    assert int(client["grpc.keepalive_time_ms"]) > least
    assert server["grpc.keepalive_time_ms"] == 60_000


def test_a_restarted_server_counts_on(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run:
        work(run)
        before = counted(ask_status(run.address))
    with run:
        assert counted(ask_status(run.address)) == before


def counted(status: Any) -> Any:
    """What a status counts, without what passes by itself."""
    passing = ("uptime", "updates_per_second", "clients", "traffic")
    return {key: value for key, value in status.items() if key not in passing}


def test_every_line_of_the_log_is_json_with_its_time(server: Served) -> None:
    work(server)
    lines = server.lines()
    assert [line["event"] for line in lines] == [
        *("enrolled", "leased", "decided", "stepped", "leased", "decided")
    ]
    assert all("time" in line for line in lines)
    assert {line["client"] for line in lines if "client" in line} == {"ann"}


@given(st.dictionaries(st.text(max_size=5), st.text() | st.floats() | st.none()))
def test_any_fact_is_one_line(facts: dict[str, Any]) -> None:
    out = io.StringIO()
    known = {"event", "level", "self", "time"}
    lines = JsonLog(Progress(), out)
    lines.say("happened", **{k: v for k, v in facts.items() if k not in known})
    lines.close()
    assert out.getvalue().count("\n") == 1
    assert json.loads(out.getvalue())["event"] == "happened"


@pytest.mark.parametrize("name", ["[/x]", "[bold", "[red]red[/]", "\N{SNOWMAN}", "\\["])
def test_a_name_is_shown_as_it_is(server: Served, name: str) -> None:
    view = LiveView(server.progress)
    with Peer(server.address, "cid") as peer:
        peer.enrol(name=name)  # a client may take another name
        peer.pull()
        peer.push(GOOD)
        judge = Peer(server.operator_socket, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        judge.pull()
        model = pb.ModelName(epoch=judge.epoch, version=judge.version)
        report = pb.ReportRequest(key=judge.key, model=model, values={name: 0.5})
        judge.stub.report(report, timeout=CALL)
        judge.channel.close()
    assert shown(view._draw()).count(name) >= 2
    assert shown(status_table(ask_status(server.address))).count(name) >= 2


@pytest.mark.parametrize("error", ["", " \n ", "one", "one\ntwo"])
def test_a_failure_is_shown_by_its_last_line(server: Served, error: str) -> None:
    view = LiveView(server.progress)
    server.progress.observe([Failed(at=0.0, cid="ann", error=error)])
    last = error.strip().rpartition("\n")[2]
    assert f"ann failed: {last}".strip() in shown(view._draw())


def test_a_view_that_has_nothing_to_show_says_so() -> None:
    assert shown(LiveView(Progress())._draw()) == "starting\n"


def test_the_view_shows_the_run(tmp_path: Path) -> None:
    config = settings(tmp_path, stop={"versions": 5})
    with Served(tmp_path, config) as server:
        view = LiveView(server.progress, Console(width=120, height=40))
        for number in range(20):
            work(server, f"client-{number:02d}") if number < 2 else Peer(
                server.address, f"client-{number:02d}"
            ).__enter__().channel.close()
        text = shown(view._draw())
    assert "versions" in text
    assert "2 of 5" in text
    assert "and 4 more" in text


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=100))
def test_a_sparkline_has_a_block_for_each_recent_value(values: list[float]) -> None:
    line = sparkline(values, width=10)
    assert len(line) == min(10, len(values))
    assert set(line) <= set("▁▂▃▄▅▆▇█")


@pytest.mark.parametrize(
    "told", ["", "7", "[]", "{", "[" * 50_000, "{}", '{"run": 1}', '{"run": []}']
)
def test_a_server_that_tells_no_status_is_told(told: str) -> None:
    answer = pb.StatusReply(json=told)
    with (
        lying(status=lambda request, context: answer) as address,
        pytest.raises(ProtocolError, match=r"tells? (no|the) status"),
    ):
        shown(status_table(ask_status(str(address))))


def test_what_a_server_says_of_its_run_cannot_act_on_the_terminal(
    server: Served,
) -> None:
    with Peer(server.address) as peer:
        peer.pull()
        told = ask_status(server.address)
    told["ended"] = "\x1b[2J" + "x" * 100_000
    told["recipe"] = "[red]fed_buff"
    text = shown(status_table(told))
    assert "\x1b[2J" not in text
    assert "[red]fed_buff" in text
    assert len(text) < 5_000
