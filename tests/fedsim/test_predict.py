"""Wrong questions to ``fedsim predict`` get one sentence."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import latecomer
from fedcore.errors import ConfigError
from fedsim.cli import main
from tests.fedrun.test_phase_file import lines, written


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--workers", "two"], "expected numbers of clients from 1 to 10,000"),
        (["--workers", "0"], "expected numbers of clients from 1 to 10,000, got 0"),
        (["--workers", "2", "--synchronous", "--buffer", "4"], "a cohort needs as"),
        (["--server-up-mbit", "0"], "--server-up-mbit 0: expected a rate above 0"),
        (["--server-ms", "-1"], "--server-ms -1: expected 0 or more"),
        (["--client", "bob"], "is the trace of 'ann'"),
    ],
)
def test_a_wrong_option_is_named(
    tmp_path: Path, words: list[str], sentence: str
) -> None:
    trace = written(tmp_path, lines())
    done = CliRunner().invoke(main, ["predict", str(trace), *words])
    assert done.exit_code != 0
    assert sentence in done.output
    assert "Traceback" not in done.output


def test_a_missing_trace_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such trace and no such run"):
        latecomer.predict(tmp_path / "none")
    file = written(tmp_path, lines())
    with pytest.raises(ConfigError, match="is a file, not a folder"):
        latecomer.predict(file, out=file)
    for workers in (8, "2,4", [2.5]):
        with pytest.raises(ConfigError, match="expected a list of numbers"):
            latecomer.predict(file, workers)  # type: ignore[arg-type]


def test_json_is_printed_alone(tmp_path: Path) -> None:
    trace = written(tmp_path, lines())
    words = ["predict", str(trace), "--json", "--server-up-mbit", "1"]
    done = CliRunner().invoke(main, words)
    told = json.loads(done.stdout)
    assert told["bottleneck"] in ("uplink", "downlink", "aggregator")
    assert {row["clients"] for row in told["predictions"]} == {1, 2, 4, 8}
