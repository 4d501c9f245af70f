"""Why nothing moves, and who is in the model: what an operator is told."""

import io
import logging
from pathlib import Path
from typing import Any

import pytest
from fedwire.v1 import federation_pb2 as pb
from rich.console import Console, RenderableType

from fedserver import server as server_module
from fedserver.operator.remote import ask_status
from fedserver.view import progress as module
from fedserver.view.live import LiveView
from fedserver.view.status import status_table, without_clients
from tests.peer import Peer, packed
from tests.served import Served, ones, served, settings, until

GOOD = packed(ones())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 0.05)


def shown(what: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=160, height=40)
    console.print(what)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def told(server: Served) -> Any:
    """The reason, once there is one."""
    until(lambda: server.progress.stalled, "it stalls")
    return ask_status(server.address)["stalled"]


def test_a_server_without_clients_says_so(server: Served) -> None:
    assert told(server).endswith("s: no client has joined; the buffer has 0 of 1")


def test_it_says_who_trains_who_is_away_and_what_is_in(tmp_path: Path) -> None:
    algorithm = {"buffer": 4}
    with (
        served(tmp_path, algorithm=algorithm) as server,
        Peer(server.address, "ann") as ann,
        Peer(server.address, "bob") as bob,
        Peer(server.address, "cid"),
    ):
        ann.pull()
        bob.pull()
        ann.push(GOOD)
        sentence = told(server)
        assert ": 1 of 3 trains, 1 is away; the buffer has 1 of 4" in sentence
        reason = sentence.partition(": ")[2]
        assert reason in shown(status_table(ask_status(server.address)))
        assert reason in shown(LiveView(server.progress)._draw())


def test_it_says_for_how_many_clients_it_waits(tmp_path: Path) -> None:
    with (
        served(tmp_path, algorithm={"min_clients": 3}) as server,
        Peer(server.address, "ann"),
    ):
        assert "1 is away; training begins with 3 clients;" in told(server)


def test_it_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_SWEEP", 0.01)
    with served(tmp_path):
        until(lambda: "no update for" in caplog.text, "it is logged")
        until(lambda: caplog.text.count("no update for") == 1, "once", 1)
    [record] = [r for r in caplog.records if "no update for" in r.message]
    assert record.levelno == logging.WARNING


def test_a_run_that_has_ended_does_not_stall(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"linger": 9.0}}
    with served(tmp_path, **config) as server, Peer(server.address, "ann") as ann:
        ann.pull()
        ann.push(GOOD)
        until(lambda: server.state.closed, "the end")
        assert server.progress.stalled is None


def test_what_comes_as_usual_is_no_stall(server: Served) -> None:
    server.progress._accepted.extend([0.0, 1e9])
    assert server.progress.usual == 1e9
    assert server.progress.stalled is None


def test_the_status_tells_who_is_in_the_model(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run, Peer(run.address, "ann") as ann, Peer(run.address, "bob") as bob:
        bob.pull()
        for count in (30, 10):
            ann.pull()
            ann.push(GOOD, counts=[count, 10], has_counts=True)
    with run:  # another process knows it as well
        status = ask_status(run.address)
        clients = {each["name"]: each for each in status["clients"]}
        assert clients["ann"]["share"] == clients["ann"]["recent_share"] == 1.0
        assert clients["bob"]["share"] == 0.0
        covered = status["coverage"]
        assert covered["half"] == ["ann"]
        assert covered["missing"] == [{"client": "bob", "since": "never"}]
        assert covered["labels"]["0"]["share"] == pytest.approx((0.75 + 0.5) / 2)
        text = shown(status_table(status))
        assert "1 of 2 clients had no part in the last 2 updates: bob (never)." in text
        hidden = without_clients(status)
        assert "bob" not in str(hidden)
        assert "label" not in str(hidden["coverage"])
        assert shown(status_table(hidden))


def test_a_status_lists_so_many_labels_as_fit_into_a_message(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.view.status.MOST_LISTED", 3)
    with Peer(server.address, "ann") as ann:
        ann.pull()
        ann.push(GOOD, counts=[1, 5, 1, 7, 1, 9], has_counts=True)
        labels = ask_status(server.address)["coverage"]["labels"]
    assert list(labels) == ["1", "3", "5"]


def test_a_strangers_status_tells_nothing_of_the_servers_folders(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = "/home/ann/run/journal.sqlite3: no space left on device"
    until(lambda: server.progress.stalled, "it stalls")
    fails = property(
        lambda core: trouble, lambda core, told: None
    )  # whatever it writes
    with monkeypatch.context() as patch:
        patch.setattr(type(server.server._core), "trouble", fails, raising=False)
        told = ask_status(server.address)
    assert told["disk"] == trouble
    hidden = without_clients(told)
    assert "/home" not in str(hidden)
    for status in (told, hidden):
        assert "; the disk is full or fails; the buffer has" in status["stalled"]
    assert hidden["disk"] == "it is full or fails"


def test_why_samples_are_left_out_is_not_the_last_failure(server: Served) -> None:
    with Peer(server.address, "ann") as ann:
        ann.pull()
        for told in (
            {"error": "ValueError: the disk is gone"},
            {"error": "a.png:\ttruncated", "skipped": 3},
        ):
            ann.stub.report(pb.ReportRequest(key=ann.key, **told), timeout=5)
        until(
            lambda: ask_status(server.address)["clients"][0]["skipped"], "both are told"
        )
        text = shown(status_table(ask_status(server.address)))
    assert "ann failed 1 time, last: ValueError: the disk is gone" in text
    assert "ann left out 3 samples, last: a.png:\\ttruncated" in text


def test_who_sends_what_is_not_finite_is_told_by_name(server: Served) -> None:
    with Peer(server.address, "ann") as ann:
        ann.pull()
        bad = ones()
        bad[3] = float("nan")
        assert ann.push(packed(bad)).answer == pb.ANSWER_DISCARDED
        status = ask_status(server.address)
    [client] = status["clients"]
    assert client["failures"] == 1
    assert "ann failed 1 time, last: " in shown(status_table(status))
    assert client["error"]
