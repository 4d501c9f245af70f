"""One model, many views: status, its table, the terminal and the metrics agree."""

import io
from typing import Any

import pytest
from rich.console import Console

from fedcore.coordinator import events as r
from fedserver.view.live import LiveView
from fedserver.view.status import status_json, status_table
from fedserver.view.web.metrics import METRICS
from fedview.results.coverage import Activity
from tests.fedserver.test_json_log import decided
from tests.fedserver.test_status import shown
from tests.served import Served

CAME: dict[Activity, list[Any]] = {
    Activity.IDLE: [decided(2.0, cid="idle")],
    Activity.TRAINS: [
        r.Leased(at=2.0, cid="trains", version=12, task="train", patch="", nbytes=0)
    ],
    Activity.EVALUATES: [
        r.Leased(
            at=2.0, cid="evaluates", version=9, task="evaluate", patch="", nbytes=0
        )
    ],
    Activity.RESTS: [
        r.Declined(at=2.0, cid="rests", version=3, planned=1, counts=None, reason="")
    ],
    Activity.AWAY: [r.Evicted(at=2.0, name="away"), r.Readmitted(at=3.0, name="away")],
    Activity.LOST: [r.Lost(at=2.0, cid="lost")],
    Activity.FAILED: [r.Failed(at=2.0, cid="failed", error="ValueError")],
    Activity.LEFT: [r.Departed(at=2.0, cid="left")],
    Activity.EVICTED: [r.Evicted(at=2.0, name="evicted")],
}
VALUES = {metric.name: metric for metric in METRICS}


def everybody(server: Served) -> None:
    """One client for each thing that clients do, and named so."""
    for activity, records in CAME.items():
        enrolled = r.Enrolled(at=1.0, cid=activity, name=activity, role="trainer")
        server.progress.observe([enrolled, *records])


def test_every_view_says_the_same_of_each_client(server: Served) -> None:
    assert set(CAME) == set(Activity)
    everybody(server)
    status = status_json(server.progress)
    doing = {client["name"]: client["doing"] for client in status["clients"]}
    names = {str(activity): str(activity) for activity in Activity}
    assert doing == names | {"trains": "trains 12", "evaluates": "evaluates 9"}
    for text in (shown(status_table(status)), shown(LiveView(server.progress)._draw())):
        rows = {line.strip("│ ").split()[0]: line for line in text.splitlines() if line}
        for name, word in doing.items():
            assert f" {word} " in rows[name]
    counts = VALUES["fed_clients"].read(server.progress)
    assert counts == {(str(activity),): 1 for activity in Activity}


def test_a_client_that_waits_for_its_device_waits_in_every_view(server: Served) -> None:
    everybody(server)
    server.server._sessions.note_waiting("idle", "charging: on battery")
    status = status_json(server.progress)
    for text in (shown(status_table(status)), shown(LiveView(server.progress)._draw())):
        [row] = [
            each for each in text.splitlines() if each.strip("│ ").startswith("idle")
        ]
        assert row.strip("│ ").split()[1] == "waits"


def test_every_view_names_a_full_disk(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.view.progress.LEAST", 0.0)
    server.server._core.trouble = "no space left on device"
    why = "the disk is full or fails"
    assert why in (server.progress.stalled or "")
    assert why in shown(status_table(status_json(server.progress)))
    assert why in " ".join(shown(LiveView(server.progress)._draw()).split())
    server.server._core.trouble = ""


def test_on_a_small_terminal_the_last_lines_of_a_status_say_how_the_run_stands(
    server: Served,
) -> None:
    for number in range(40):
        cid = f"client-{number}"
        enrolled = r.Enrolled(at=1.0, cid=cid, name=cid, role="trainer")
        failed = r.Failed(at=2.0, cid=cid, error="ValueError: no such file")
        server.progress.observe([enrolled, decided(2.0, cid=cid), failed])
    judge = r.Enrolled(at=1.0, cid="judge", name="judge", role="evaluator")
    values = {"accuracy": 0.9555555555555556}
    server.progress.observe(
        [judge, r.Evaluated(at=3.0, cid="judge", version=3, values=values, samples=9)]
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(status_table(status_json(server.progress)))
    last = str(console.file.getvalue()).splitlines()[-23:]  # type: ignore[attr-defined]
    assert any(line.startswith("version ") for line in last)
    shown_ = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert "…" not in shown_
    assert "accuracy 0.9556 at version 3" in [" ".join(line.split()) for line in last]


def test_a_name_that_reads_like_a_state_is_a_name(server: Served) -> None:
    server.progress.observe(
        [r.Enrolled(at=1.0, cid="x", name="trains 12", role="trainer")]
    )
    [client] = status_json(server.progress)["clients"]
    assert (client["name"], client["doing"]) == ("trains 12", "idle")
