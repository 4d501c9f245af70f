"""The log as JSON lines: what it leaves out, and who never waits for its reader."""

import io
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fedwire.frames import header_frame
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.events import Decided, Enrolled, Failed, HistoryForked
from fedcore.protocol import Verdict
from fedrun.json_lines import JsonFormatter
from fedserver.view.json_log import JsonLog, LineWriter, logging_aside
from fedserver.view.progress import Progress
from tests.peer import Peer, packed
from tests.served import Served, ones, served, settings, until


class Pipe:
    """A stream whose reader takes nothing until it is told to."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._reader, self.stream = os.fdopen(reading), os.fdopen(writing, "w")
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read)

    def read(self) -> None:
        """The reader wakes up."""
        self._thread.start()

    def close(self) -> list[str]:
        """The writer is through; all that was read."""
        self.stream.close()
        self._thread.join()
        return self._lines

    def _read(self) -> None:
        with self._reader:
            self._lines.extend(self._reader)


def decided(at: float, **more: Any) -> Decided:
    """An update with label counts and a payload."""
    told: dict[str, Any] = {
        "cid": "a",
        "seq": 1,
        "digest": "00",
        "base": 0,
        "staleness": 0,
        "verdict": Verdict.ACCEPTED,
        "weight": 1.0,
        "reason": "",
        "samples": 1,
        "steps": 1,
        "update_norm": 0.0,
        "memory_norm": 0.0,
        "oldest": None,
        "counts": np.array([7, 9]),
        "loss": None,
        "nbytes": 3,
        "payload": b"abc",
    }
    return Decided(at=at, **{**told, **more})


def test_a_reader_that_is_too_slow_is_waited_for_by_nobody() -> None:
    pipe, progress = Pipe(), Progress()
    lines = JsonLog(progress, pipe.stream, most=100)
    for number in range(5_000):  # 300 bytes each: far more than a pipe holds
        progress.observe([Failed(at=float(number), cid="a", error="x" * 200)])
    pipe.read()
    lines.close()
    told = [json.loads(line) for line in pipe.close()]
    dropped = sum(line["lines"] for line in told if line["event"] == "dropped")
    failed = sum(line["event"] == "failed" for line in told)
    assert dropped > 0
    assert failed + dropped == 5_000


def test_a_run_goes_on_while_nobody_reads_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.view.json_log.LAST", 0.1)
    pipe = Pipe()
    server = Served(tmp_path, settings(tmp_path))
    server.out = pipe.stream  # type: ignore[assignment]
    with server, Peer(server.address) as peer:
        for _ in range(200):
            peer.pull()
            peer.push(packed(ones()))
        assert server.state.version == 200
    pipe.read()
    pipe.close()


def test_label_histograms_stay_in_the_journal(tmp_path: Path) -> None:
    config = settings(tmp_path, algorithm={"kind": "latecomer", "buffer": 1})
    with Served(tmp_path, config) as server, Peer(server.address) as peer:
        peer.pull()
        peer.push(packed(ones()), has_counts=True, counts=[3, 4])
        [line] = server.lines("decided")
    assert "counts" not in line
    assert line["verdict"] == "accepted"


def test_every_line_has_a_level() -> None:
    pipe, progress = Pipe(), Progress()
    lines = JsonLog(progress, pipe.stream)
    progress.observe(
        [
            Enrolled(at=0.0, cid="a", name="\x1b[31mann", role="trainer"),
            decided(1.0),
            Failed(at=2.0, cid="a", error="\x1b[2J"),
            HistoryForked(at=3.0, epoch="00", version=0, reason="restored"),
        ]
    )
    pipe.read()
    lines.close()
    found = pipe.close()
    told = [json.loads(line) for line in found]
    levels = [(line["event"], line["level"]) for line in told]
    assert levels == [
        ("enrolled", "info"),
        ("decided", "info"),
        ("failed", "warning"),
        ("historyforked", "warning"),
    ]
    assert "\x1b" not in "".join(found)


def test_every_line_of_a_run_names_run_client_and_task(tmp_path: Path) -> None:
    with served(tmp_path) as server, Peer(server.address, "ann") as ann:
        for _ in range(2):
            ann.pull()
            ann.push(packed(ones()))
        with Peer(server.operator_socket, "judge") as judge:
            judge.enrol(role=pb.ROLE_EVALUATOR)
            judge.pull()
        until(lambda: len(server.lines("leased")) == 3, "all are written")
        lines = server.lines()
    assert {line["run"] for line in lines} == {server.run.run_id}
    assert all(("cid" in line) == ("client" in line) for line in lines)
    of_ann = [line for line in lines if line.get("client") == "ann"]
    assert [(line["event"], line.get("seq")) for line in of_ann] == [
        ("enrolled", None),
        ("leased", 1),
        ("decided", 1),
        ("leased", 2),
        ("decided", 2),
    ]
    evaluated = [line for line in lines if line.get("client") == "judge"]
    assert all("seq" not in line for line in evaluated)
    assert {line["event"] for line in evaluated} == {"enrolled", "leased"}


def test_what_the_server_logs_of_a_call_names_its_client_and_task(
    tmp_path: Path,
) -> None:
    out, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    root.addHandler(handler)
    try:
        with served(tmp_path) as server, Peer(server.address, "ann") as ann:
            ann.pull()
            with pytest.raises(grpc.RpcError):
                ann.send([header_frame(ann.header(b"abc")), b"junk"])
    finally:
        root.removeHandler(handler)
    [line] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert line["message"].startswith("refused a push: ")
    assert (line["client"], line["cid"], line["seq"]) == ("ann", ann.cid, 1)


def test_who_logs_waits_for_no_reader() -> None:
    pipe = Pipe()
    root, handler = logging.getLogger(), logging.StreamHandler(pipe.stream)
    root.addHandler(handler)
    try:
        with logging_aside():
            for number in range(500):
                logging.getLogger("fedserver").warning("%d %s", number, "x" * 1_000)
            assert handler not in root.handlers
            pipe.read()
        assert handler in root.handlers
    finally:
        root.removeHandler(handler)
    told = [int(line.split()[0]) for line in pipe.close()]
    assert told == list(range(500))


def test_a_stream_that_is_closed_harms_nobody() -> None:
    pipe = Pipe()
    writer = LineWriter(pipe.stream, str)
    pipe.read()
    pipe.close()
    for _ in range(10):
        writer.write(lambda: "a line")
    writer.close()
