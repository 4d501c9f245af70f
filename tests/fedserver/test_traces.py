"""Traces: a client's task and what the server does for it are one trace."""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedwire.connect import parse_address
from fedwire.convert import epoch_name
from fedwire.frames import chunk_frames, header_frame
from fedwire.v1 import federation_pb2 as pb

from fedclient.wire.connection import Connection, Refusal
from fedclient.wire.spans import SpanPhases
from fedcore.errors import ConfigError
from fedcore.params import content_digest
from fedcore.protocol import NOTHING_SETTLED, ModelName, Pull, Push, Verdict
from fedrun.json_lines import present_ids
from fedrun.optional import require
from fedrun.tracing import OFF, Spans, is_asked_for, make_tracer
from tests.peer import Peer, key_of, packed
from tests.served import Served, ones, settings, spec_of

pytestmark = pytest.mark.needs("opentelemetry.sdk", "opentelemetry.exporter.otlp")


@pytest.fixture
def memory() -> Any:
    """An exporter that keeps what it is given."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    return InMemorySpanExporter()


def spans_of(memory: Any, name: str) -> list[Any]:
    return [span for span in memory.get_finished_spans() if span.name == name]


def one_task(address: str, phases: Any) -> None:
    """A client asks for work and delivers an update, as a worker does."""
    connection = Connection(parse_address(address), spec_of(100), key_of("ann"))
    connection.phases = phases
    owner = key_of("ann")
    enrolled = connection.enrol(
        pb.EnrolRequest(key=connection.key, owner=owner, name="ann")
    )
    phases.begin("ann", enrolled.run_id)
    epoch = epoch_name(enrolled.epoch)
    reply = connection.pull(Pull(cid="", nonce=1, epoch=epoch))
    assert not isinstance(reply, Refusal)
    assert reply.task is not None
    with phases.one("compute"):
        payload = packed(ones())
    push = Push(
        cid="",
        epoch=epoch,
        seq=1,
        base=ModelName(epoch, reply.patch.version),
        payload=payload,
        digest=content_digest(payload),
        settled=NOTHING_SETTLED,
        samples=1,
        task=reply.task.proof,
    )
    assert connection.push(push, again=False).answer is Verdict.ACCEPTED
    phases.close()
    connection.close()


def test_a_task_and_its_handling_are_one_trace(tmp_path: Path, memory: Any) -> None:
    run = Served(tmp_path, settings(tmp_path))
    run.tracer = Spans("fedserver", memory, at_once=True)
    with run:
        one_task(run.address, SpanPhases(Spans("fedclient", memory, at_once=True)))
    [task] = spans_of(memory, "task")
    assert task.attributes["fed.client"] == "ann"
    names = {"request", "download", "compute", "upload", "verdict"}
    mine = [span for span in memory.get_finished_spans() if span.name in names]
    assert {span.name for span in mine} == names
    assert {span.parent.span_id for span in mine} == {task.context.span_id}
    [push], [pull] = spans_of(memory, "push"), spans_of(memory, "pull")
    [upload], [request] = spans_of(memory, "upload"), spans_of(memory, "request")
    assert push.parent.span_id == upload.context.span_id
    assert pull.parent.span_id == request.context.span_id
    assert push.attributes["fed.verdict"] == "accepted"
    assert (push.attributes["fed.client"], push.attributes["fed.seq"]) == ("ann", 1)
    assert (push.attributes["fed.base"], push.attributes["fed.steps"]) == (0, 0)
    assert pull.attributes["fed.task"] == "train"
    inner = {span.name: span for span in memory.get_finished_spans() if span.parent}
    for name in ("receive", "decode", "commit"):
        assert inner[name].parent.span_id == push.context.span_id
    assert inner["receive"].attributes["fed.bytes"] == len(packed(ones()))
    for name in ("wait", "send"):
        assert inner[name].parent.span_id == pull.context.span_id
    together = {span.context.trace_id for span in (task, push, pull, inner["commit"])}
    assert len(together) == 1
    [version] = spans_of(memory, "version")
    assert version.attributes["fed.version"] == 1
    assert [link.context.span_id for link in version.links] == [push.context.span_id]


def test_an_update_that_is_refused_makes_no_version(
    tmp_path: Path, memory: Any
) -> None:
    run = Served(tmp_path, settings(tmp_path))
    run.tracer = Spans("fedserver", memory, at_once=True)
    with run, Peer(run.address, "ann") as ann:
        ann.pull()
        ann.push(b"junk")
        ann.push(packed(np.full(100, np.nan)))
        ann.push(packed(ones()))
    verdicts = [span.attributes["fed.verdict"] for span in spans_of(memory, "push")]
    assert verdicts == ["rejected_malformed", "discarded", "accepted"]
    [version] = spans_of(memory, "version")
    assert len(version.links) == 1
    assert len({span.context.trace_id for span in spans_of(memory, "push")}) == 3


def test_an_update_without_a_record_leaves_nothing_behind(
    tmp_path: Path, memory: Any
) -> None:
    run = Served(tmp_path, settings(tmp_path))
    run.tracer = Spans("fedserver", memory, at_once=True)
    with run, Peer(run.address, "ann") as ann:
        ann.pull()
        ann.push(packed(ones()), seq=9)
        for seq in (1, 2, 3):  # older ones: the client's newest is decided
            reply = ann.push(packed(ones()), seq=seq)
            assert reply.answer == pb.ANSWER_OBSOLETE
        assert run.server._service.pushes._versions._arriving == {}


def test_a_trace_of_nonsense_is_no_trace(tmp_path: Path, memory: Any) -> None:
    run = Served(tmp_path, settings(tmp_path))
    run.tracer = Spans("fedserver", memory, at_once=True)
    with run, Peer(run.address, "ann") as ann:
        ann.pull()
        payload = packed(ones())
        frames = [header_frame(ann.header(payload)), *chunk_frames([payload])]
        metadata = (("traceparent", "00-nonsense"), ("tracestate", "=,=" * 300))
        ann.stub.push(iter(frames), metadata=metadata, timeout=20)
    [push] = spans_of(memory, "push")
    assert push.parent is None


def test_a_call_that_fails_ends_its_span(memory: Any) -> None:
    phases = SpanPhases(Spans("fedclient", memory, at_once=True))

    def fail() -> None:
        with phases.call("upload", "verdict", "up"):
            assert present_ids()["trace_id"]
            phases.turn()
            raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        fail()
    phases.turn()  # gRPC's thread comes too late
    phases.close()
    assert [span.name for span in memory.get_finished_spans()] == [
        "upload", "verdict", "task",
    ]  # fmt: skip
    [verdict] = spans_of(memory, "verdict")
    assert verdict.events[0].name == "exception"
    assert "trace_id" not in present_ids()


# --------------------------------------------------------------------- who asks for it


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://here:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (
            {
                "OTEL_TRACES_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318",
            },
            False,
        ),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, False),
    ],
)
def test_the_environment_decides(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], asked: bool
) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_asked_for() is asked
    if not asked:
        assert make_tracer("x") is OFF


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "expected otlp, console or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "expected http/protobuf"),
    ],
)
def test_what_is_not_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}={value}: {sentence}"):
        make_tracer("x")


def test_without_the_extra_one_sentence_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedrun.optional.is_installed", lambda _: False)
    with pytest.raises(ConfigError) as caught:
        make_tracer("x", "console")
    assert str(caught.value) == (
        "a trace needs the package opentelemetry: pip install 'latecomer[telemetry]'"
    )


def test_a_part_of_the_extra_that_is_missing_is_one_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        require("opentelemetry.exporter.nowhere.at_all", "telemetry", "a trace")
    assert str(caught.value) == (
        "a trace needs the module opentelemetry.exporter.nowhere: "
        "pip install 'latecomer[telemetry]'"
    )


@pytest.mark.parametrize("url", ["here:4318", "ftp://here", "http://", "Console"])
def test_a_collector_that_is_none_is_refused_with_the_config(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(ConfigError, match="of a collector, or console"):
        settings(tmp_path, server={"telemetry": url})


def test_spans_reach_a_collector_by_otlp() -> None:
    heard: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            heard.append((self.path, self.rfile.read(size)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        tracer = make_tracer("fedserver", f"http://127.0.0.1:{server.server_port}/")
        with tracer.span("receive", bytes=7):
            pass
        tracer.close()
        server.shutdown()
        thread.join()
    [(path, body)] = heard
    assert path == "/v1/traces"
    assert b"receive" in body
    assert b"fed.bytes" in body


def test_a_console_prints_spans() -> None:
    code = (
        "from fedrun.tracing import make_tracer; t = make_tracer('x')\n"
        "with t.span('decode'): pass\n"
        "t.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OTEL_TRACES_EXPORTER": "console"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"name": "decode"' in done.stdout
