"""What ``fedsim predict`` says, and that wrong questions get one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import latecomer
from fedcore.coordinator.events import Decided
from fedcore.errors import ConfigError
from fedcore.planning.throughput import Pace, predict
from fedcore.rng import Key
from fedsim.cli import main
from tests.fedcore.planning.test_parts import rows_of
from tests.fedcore.planning.test_throughput import demands
from tests.fedrun.test_phase_file import lines, written
from tests.fedview.what_if.federation import simulated


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--workers", "two"], "expected numbers of clients from 1 to 10,000"),
        (["--workers", "0"], "expected numbers of clients from 1 to 10,000, such as"),
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


def test_a_federation_in_rounds_is_not_said_to_fill_a_link(tmp_path: Path) -> None:
    trace = written(tmp_path, lines())
    given: dict[str, Any] = {
        "server_up_mbit": 0.004,
        "server_down_mbit": 100.0,
        "server_ms": 0.0,
    }
    free = latecomer.predict(trace, [16], **given)
    assert free.verdict.endswith("the uplink is full from 15 clients on")
    rounds = latecomer.predict(trace, [16], synchronous=True, **given)
    assert rounds.rows[-1].utilisation["uplink"] < 0.9
    assert "if clients did not wait for each other, the uplink would be full" in (
        rounds.verdict
    )


def test_the_resource_that_is_full_first_is_that_of_the_table(
    tmp_path: Path,
) -> None:
    # All downloads of the trace are new models. With a large buffer few of them are.
    rows = lines()
    for row in rows[1:]:
        if row["phase"] == "download":
            row["version"] = row["task"]
    found = latecomer.predict(
        written(tmp_path, rows),
        [16],
        buffer=160,
        server_up_mbit=0.004,
        server_down_mbit=0.006,
        server_ms=0.0,
    )
    assert found.bottleneck == found.rows[-1].limit == "uplink"
    assert found.demands.bounds(1)["downlink"] < found.demands.bounds(1)["uplink"]


def test_what_the_server_works_is_a_guess_that_is_told(tmp_path: Path) -> None:
    rows = lines()
    for row in rows[1:]:
        if row["phase"] == "verdict":
            row["duration"] += 0.05
    trace = written(tmp_path, rows)
    guessed = latecomer.predict(trace, [2]).doubts
    assert any("(--server-ms)" in doubt for doubt in guessed)
    given = latecomer.predict(trace, [2], server_ms=5.0).doubts
    assert not any("(--server-ms)" in doubt for doubt in given)


def test_the_order_of_parts_changes_the_time(tmp_path: Path) -> None:
    layers = [(100, 1, 2, 100), (300, 1, 2, 300)]
    rows, now = lines(0), 0.0
    for task in range(13):
        own = rows_of(layers, task, now)
        rows += [{**row._asdict(), "bytes": row.bytes * 1000} for row in own]
        now = own[-1].start
    trace = written(tmp_path, rows)
    rates = list[float]()
    for order in ("whole", "fifo", "priority"):
        words = ["predict", str(trace), "--json", "--workers", "1", "--order", order]
        done = CliRunner().invoke(main, words)
        found = json.loads(done.stdout)["predictions"][0]
        rates.append(found["updates_per_second"])
    assert rates[0] < rates[1] < rates[2]
    trace = written(tmp_path, [*rows[:-1], {**rows[-1], "part": -1}])
    with pytest.raises(ConfigError, match="expected a part from 0 on, got -1"):
        latecomer.predict(trace)
    trace = written(tmp_path, [*rows[:-1], {**rows[-1], "part": "x"}])
    with pytest.raises(ConfigError, match="column 'part': got 'x'"):
        latecomer.predict(trace)


# ---------------------------------------------------------------------- from a journal

SIMULATED = {
    "clients": 3,
    "speed": {"kind": "log_normal", "sigma": 0.3},
    "step_seconds": 1.0,
    "link": {"latency": 0.05},
}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal") / "run"
    return simulated(folder, simulate=SIMULATED, stop={"versions": 40})


def test_many_clients_are_predicted_from_the_tasks_of_one_in_a_journal(
    journal: Path,
) -> None:
    summary = latecomer.Results(journal).summary
    rate = summary["accepted"] / summary["seconds"]
    alone = [
        latecomer.predict(journal, [1], client=f"client-{n}")
        .rows[-1]
        .updates_per_second
        for n in range(3)
    ]
    # The clients differ in their speed; the simulation has no link that they share.
    assert sum(alone) == pytest.approx(rate, rel=0.05)
    found = latecomer.predict(journal, [3], client="client-0")
    assert found.rows[-1].updates_per_second == pytest.approx(3 * alone[0], rel=0.02)
    assert found.verdict.endswith("nothing that clients share is ever full")
    assert any("no link can ever be full" in doubt for doubt in found.doubts)
    assert not any("has bytes" in doubt for doubt in found.doubts)


def test_with_the_rates_of_the_link_a_journal_tells_when_it_is_full(
    journal: Path,
) -> None:
    up = 0.002
    found = latecomer.predict(
        journal, [1, 200], client="client-0", server_up_mbit=up, server_down_mbit=1.0
    )
    few, many = found.rows
    assert many.limit == "uplink"
    assert many.updates_per_second < 150 * few.updates_per_second
    assert many.utilisation["uplink"] > 0.95
    assert any("has no training times" in doubt for doubt in found.doubts)


def test_the_clients_of_a_journal_are_named_and_not_its_evaluator(
    journal: Path,
) -> None:
    names = "client-0, client-1, client-2$"
    with pytest.raises(ConfigError, match=f"client says whose .* {names}"):
        latecomer.predict(journal)
    with pytest.raises(ConfigError, match=f"no client of this name; it has {names}"):
        latecomer.predict(journal, client="zoe")


# --------------------------------------------------------- beside the real coordinator


@pytest.mark.parametrize(
    ("clients", "buffer"), [(2, 2), (4, 2), (8, 2), (5, 4), (3, 10), (12, 10), (10, 10)]
)
def test_it_predicts_what_the_coordinator_does(
    clients: int, buffer: int, tmp_path: Path
) -> None:
    run = simulated(
        tmp_path / "run",
        algorithm={"kind": "fed_buff", "buffer": buffer, "min_clients": clients},
        simulate={
            "clients": clients,
            "step_seconds": 1.0,
            "jitter": {"kind": "uniform", "low": 0.5, "high": 1.5},
            "link": {"latency": 0.0, "up_mbit": 1e6, "down_mbit": 1e6},
        },
        stop={"versions": 1200 // buffer},
    )
    found = latecomer.Results(run).of(Decided)[200:]
    rate = (len(found) - 1) / (found[-1].at - found[0].at)
    late_U = np.array([each.staleness for each in found])

    own_J = 4 * np.linspace(0.5, 1.5, 101)  # a task has four steps
    told = predict(demands(own_J), clients, Pace(buffer), key=Key.root(0))
    assert told.updates_per_second == pytest.approx(rate, rel=0.05)
    shares_T = np.bincount(late_U, minlength=len(told.staleness_T)) / len(late_U)
    theirs_T = told.staleness_T / told.staleness_T.sum()
    size = min(len(shares_T), len(theirs_T))
    assert np.abs(np.cumsum(shares_T)[:size] - np.cumsum(theirs_T)[:size]).max() < 0.1
