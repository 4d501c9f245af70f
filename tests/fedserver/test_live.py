"""The live view on a terminal: what stands there, at each size."""

import io

import pytest
from fedwire.v1 import federation_pb2 as pb
from rich.console import Console

from fedcore.coordinator.events import Failed
from fedserver.view.live import LiveView
from fedserver.view.progress import Progress
from fedview.results.coverage import Activity
from tests.fedserver.test_status import GOOD
from tests.peer import CALL, Peer
from tests.served import Served

NAMES = [f"hospital-{number}" for number in range(8)]


def drawn(view: LiveView, width: int, height: int) -> list[str]:
    """The lines of a terminal of this size; longer lines would be cut there."""
    console = Console(file=io.StringIO(), width=width, height=height)
    view._console = console
    console.print(view._draw())
    return str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]


def busy(server: Served, *metrics: str) -> LiveView:
    """Eight clients with an update each, and an evaluator that has measured."""
    view = LiveView(server.progress)
    for name in NAMES:
        with Peer(server.address, name) as peer:
            peer.pull()
            peer.push(GOOD)
            version = peer.pull().version
    judge = Peer(server.operator_socket, "judge")
    judge.enrol(role=pb.ROLE_EVALUATOR, name="evaluator")
    assert judge.pull().version == version
    model = pb.ModelName(epoch=judge.epoch, version=version)
    values = dict.fromkeys(metrics, 0.5)
    report = pb.ReportRequest(key=judge.key, model=model, values=values)
    judge.stub.report(report, timeout=CALL)
    judge.channel.close()
    return view


def test_of_eight_clients_nothing_is_cut_on_a_usual_terminal(server: Served) -> None:
    lines = drawn(busy(server, "accuracy", "loss"), 80, 24)
    assert len(lines) < 24  # and a line is left for what is typed next
    assert {len(line) for line in lines} == {80}
    text = "\n".join(lines)
    for name in (*NAMES, "evaluator", "accuracy", "loss", "payload"):
        assert name in text
    assert "…" not in text
    assert lines[-1].startswith("╰")
    rows = [line for line in lines if "hospital-" in line]
    assert len(rows) == 8
    for row in rows:  # does, accepted, late by, weight, up and down: all in one line
        assert row.split()[-6:-3] == ["1", "0", "1.00"] or "trains" in row


def test_warnings_are_whole_and_leave_room_for_eight_clients(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [
        "no update for 14 min: 3 of 8 train, 5 are away; the buffer has 2 of 4 updates",
        "5 of 8 clients had no part in the last 100 updates: "
        + ", ".join(f"{name} (since version 100)" for name in NAMES[:5]),
    ]
    view = busy(server, "accuracy", "loss")
    monkeypatch.setattr(Progress, "stalled", sentences[0])
    monkeypatch.setattr("fedserver.view.live.warnings", lambda coverage: sentences[1:])
    lines = drawn(view, 80, 24)
    text = " ".join(line.strip("│ ") for line in lines)
    for sentence in sentences:
        assert sentence in " ".join(text.split())
    for name in (*NAMES, "evaluator"):
        assert name in text
    assert "more" not in text
    assert len(lines) < 24


def test_where_there_is_more_room_more_is_shown(server: Served) -> None:
    view = busy(server, "accuracy")
    assert "control" not in "\n".join(drawn(view, 80, 24))
    tall = "\n".join(drawn(view, 80, 48))
    assert "control" in tall
    assert "in messages" in tall
    assert "dense" in "\n".join(drawn(view, 120, 24))  # the codec, at each client


@pytest.mark.parametrize(("width", "height"), [(40, 12), (60, 16), (80, 24), (200, 60)])
def test_the_view_never_outgrows_the_terminal(
    server: Served, width: int, height: int
) -> None:
    view = busy(server, *(f"recall_of_class_{n}" for n in range(12)))
    long = "RuntimeError: " + "a sentence that goes on and on " * 6
    server.progress.observe(
        [Failed(at=0.0, cid=f"client-{n}", error=long) for n in range(9)]
    )
    lines = drawn(view, width, height)
    assert len(lines) < height
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("width", [40, 60])
def test_on_a_narrow_terminal_columns_give_way_to_names(
    server: Served, width: int
) -> None:
    lines = drawn(busy(server), width, 30)
    (head,) = [line for line in lines if " does " in line]
    rows = lines[lines.index(head) + 1 :][:9]
    assert head.startswith("│ client ")
    assert len({line[:14] for line in rows}) == 9
    assert ("accepted" in head, "λ" in head, "down" in head) == (
        True,
        width == 60,
        False,
    )


def test_what_is_left_out_is_counted(server: Served) -> None:
    view = busy(server, *(f"metric-{n}" for n in range(9)))
    lines = drawn(view, 80, 17)
    text = "\n".join(lines)
    clients = sum("hospital-" in line or "evaluator" in line for line in lines)
    metrics = sum(line.startswith("│ metric-") for line in lines)
    assert f"and {9 - clients} more" in text
    assert f"and {9 - metrics} more" in text


def test_a_client_that_is_away_does_not_look_as_if_it_worked(server: Served) -> None:
    view = busy(server)
    colours = {"away": "33", "lost": "31", "trains 3": "32"}  # yellow, red, green
    for client, doing in zip(server.progress.clients.values(), colours, strict=False):
        client.activity, client.version = Activity(doing.split()[0]), 3
    console = Console(
        file=io.StringIO(), width=80, height=24, force_terminal=True,
        color_system="standard",
    )  # fmt: skip
    view._console = console
    console.print(view._draw())
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    for doing, colour in colours.items():
        assert f"\x1b[{colour}m{doing}" in text
