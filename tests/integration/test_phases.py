"""What a real client records of its phases predicts what many would do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import latecomer
from fedcore.errors import ConfigError
from fedrun.phase_file import read_phases
from fedsim.cli import main
from tests.integration.conftest import Make

VERDICT = '"phase": "verdict"'


@pytest.mark.processes
def test_the_trace_of_a_killed_client_is_accepted(
    federation: Make, tmp_path: Path
) -> None:
    algorithm = {"kind": "fed_buff", "buffer": 1}
    fed = federation(stop={"updates": 30}, algorithm=algorithm)
    server, trace = fed.server("--no-evaluator"), tmp_path / "phases.jsonl"
    client = fed.client(0, 1, "--phases", str(trace))
    fed.wait_until(
        lambda: trace.exists() and trace.read_text().count(VERDICT) > 12, "12 tasks"
    )
    client.kill()
    assert len(read_phases(trace).tasks) >= 10  # it is written as it goes
    client.start()
    assert (server.wait(), client.wait()) == (0, 0)
    found = read_phases(trace)
    assert found.client == "client-0"
    assert 20 < len(found.tasks) <= 30
    for phase in ("request", "download", "decode", "compute", "encode", "upload"):
        assert found.mean(phase) > 0, phase
    assert all(task.up > 2000 for task in found.tasks)

    out = tmp_path / "out"
    done = CliRunner().invoke(
        main, ["predict", str(trace), "--workers", "2,4", "-o", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "4 clients make" in done.output
    assert "<html" in (out / "predict.html").read_text()
    numbers = json.loads((out / "predict.json").read_text())
    assert [row["clients"] for row in numbers["predictions"]] == [1, 2, 4]

    journal = ["predict", str(fed.run), "--client", "client-0", "--json"]
    done = CliRunner().invoke(main, journal)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert "no training times" in told["doubts"][0]
    rates = [row["updates_per_second"] for row in told["predictions"]]
    assert rates == sorted(rates)

    rows = latecomer.predict(trace, [3], synchronous=True, server_ms=1.0).rows
    assert [row.clients for row in rows] == [1, 3]
    with pytest.raises(ConfigError, match="no client of this name; it has client-0"):
        latecomer.predict(fed.run, client="bob")


@pytest.mark.processes
def test_the_trace_of_another_client_is_not_continued(
    federation: Make, tmp_path: Path
) -> None:
    trace = tmp_path / "phases.jsonl"
    head = {"format": "latecomer phases 1", "client": "bob", "run": ""}
    trace.write_text(json.dumps(head) + "\n")
    fed = federation(stop={"updates": 3})
    fed.server("--no-evaluator")
    client = fed.client(0, 1, "--phases", str(trace))
    assert client.wait() != 0
    assert "holds the phases of 'bob'" in client.tail()


@pytest.mark.processes
def test_two_clients_do_not_write_one_trace(federation: Make, tmp_path: Path) -> None:
    trace = tmp_path / "phases.jsonl"
    fed = federation(stop={"updates": 1000})
    fed.server("--no-evaluator")
    fed.client(0, 2, "--phases", str(trace))
    fed.wait_until(lambda: trace.exists() and trace.read_text() != "", "a trace")
    second = fed.client(1, 2, "--phases", str(trace))
    assert second.wait() != 0
    assert "another client is writing it; name another file" in second.tail()
