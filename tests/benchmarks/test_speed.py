"""The benchmarks run and fill their tables; how fast they find things is not asked."""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.series import runs
from benchmarks.speed.aggregation import Updates, aggregate
from benchmarks.speed.measure import Figure, Scale, in_turn, seconds_of
from benchmarks.speed.processes import Helper, Started
from benchmarks.speed.report import RATIO, Report, Row
from fedcore.payloads import decode, unpack

QUICK = Scale(quick=True)
PROCESSES = {"counting", "scraping", "server", "start"}
WEB = pytest.mark.needs("uvicorn", "starlette", "prometheus_client")


def filled(report: Report) -> None:
    """Every row has numbers, and a ratio to one that is 1."""
    assert report.groups
    for title, rows in report.groups.items():
        names = {row.name for row in rows}
        for row in rows:
            assert row.against in names, (title, row.name)
            if row.name == row.against:
                assert row.figures[RATIO].median == 1, (title, row.name)
            for figure in row.figures.values():
                assert figure.values, (title, row.name)
                assert all(math.isfinite(value) for value in figure.values)
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("name", sorted(command.BENCHMARKS.keys() - PROCESSES))
def test_a_quick_run_fills_every_table(name: str) -> None:
    filled(command.BENCHMARKS[name](QUICK))


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=WEB if x == "scraping" else ()) for x in sorted(PROCESSES)],
)
def test_a_quick_run_of_real_processes_fills_every_table(name: str) -> None:
    filled(command.BENCHMARKS[name](QUICK))


def test_the_command_shows_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["aggregation", "--quick"]) == 0
    shown = capsys.readouterr().out
    assert "memcpy" in shown
    assert "np.mean(np.stack(...))" in shown


def test_a_benchmark_that_does_not_exist_is_answered_with_those_that_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.main(["agregation"])
    assert ", ".join(command.BENCHMARKS) in capsys.readouterr().err


def test_saving_keeps_other_benchmarks_and_earlier_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results" / "speed.json")
    row = Row("memcpy", {RATIO: Figure([1.0])}, "memcpy")
    for number, name in enumerate(("durable", "aggregation", "durable", "durable")):
        report = Report(name=name, title=str(number), groups={"all": [row]})
        monkeypatch.setitem(command.BENCHMARKS, name, partial(_given, report))
        assert command.main([name, "--quick", "--save"]) == 0
    told = json.loads(command.RESULTS.read_text())["benchmarks"]
    assert list(told) == ["aggregation", "durable"]
    found = runs(told["durable"])
    assert [run["title"] for run in found] == ["0", "2", "3"]
    for run in found:
        assert run["groups"]["all"]["memcpy"]["against"]
        assert run["machine"]["load"] >= 0


def _given(report: Report, scale: Scale) -> Report:
    """What was measured, whatever the scale."""
    return report


def test_the_aggregate_that_is_timed_is_the_mean() -> None:
    updates = Updates.draw(3, 50)
    decoded = [decode(unpack(packed, (50,))) for packed in updates.dense]
    mean_D = np.mean(decoded, axis=0)
    for samples in (1.0, 37.0):
        found_D = aggregate(updates.dense, 50, samples)
        np.testing.assert_allclose(found_D, mean_D, rtol=1e-4, atol=1e-6)


def test_rounds_alternate_and_the_first_does_not_count() -> None:
    order: list[str] = []
    works = {name: partial(order.append, name) for name in "ab"}
    found = in_turn(works, 2)
    assert order == list("baabba"), "there and back, so that a trend hits both"
    assert [len(figure.values) for figure in found.values()] == [2, 2]


def test_a_work_that_measures_itself_is_believed() -> None:
    assert seconds_of(lambda: 42.0) == 42.0


def test_ratios_are_taken_within_a_round() -> None:
    ratio = Figure([2.0, 30.0, 8.0]).over(Figure([1.0, 10.0, 4.0]))
    assert ratio.values == [2.0, 3.0, 2.0]
    assert (str(ratio), ratio.spread) == ("2", "2 to 3")


@pytest.mark.processes
def test_a_helper_that_ends_is_no_silence() -> None:
    with pytest.raises(RuntimeError, match="ended"):
        Helper("-c", "raise SystemExit(3)")


@pytest.mark.processes
@pytest.mark.quick
def test_a_program_is_waited_for_until_it_says_the_word(tmp_path: Path) -> None:
    code = "print('not yet'); print('ready now', flush=True); input()"
    with Started(["-c", code], "ready", tmp_path) as started:
        assert 0 < started.seconds < 60
        assert started.process.poll() is None
    assert started.process.returncode is not None
    with pytest.raises(RuntimeError, match="not yet"):
        Started(["-c", "print('not yet')"], "ready", tmp_path)


def report(ratio: float) -> Report:
    figures = {RATIO: Figure([ratio, ratio, ratio])}
    rows = [Row("from the wire", figures, "memcpy")]
    return Report(name="aggregation", title="", groups={"dense": rows})


@pytest.mark.parametrize(("times", "code"), [(1.0, 0), (1.9, 0), (2.1, 1)])
def test_a_ratio_much_worse_than_was_saved_is_found(
    times: float,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "speed.json")
    command.save({"aggregation": report(1.5).to_json()})
    slower = {"aggregation": lambda scale: report(1.5 * times)}
    monkeypatch.setattr(command, "BENCHMARKS", slower)
    assert command.main(["aggregation", "--again"]) == code
    assert ("memcpy, 1.5 at most" in capsys.readouterr().out) == bool(code)


def test_a_comparison_of_nothing_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "speed.json")
    command.save({"durable": report(1.5).to_json()})
    monkeypatch.setattr(command, "BENCHMARKS", {"aggregation": lambda _: report(1.5)})
    assert command.main(["aggregation", "--again"]) == 1
    assert "0 of 0 ratios" in capsys.readouterr().out


def test_what_a_benchmark_needs_is_said_and_compares_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command.main(["scraping", "--again"]) == 1
    assert "pip install 'latecomer[web]'" in capsys.readouterr().out
