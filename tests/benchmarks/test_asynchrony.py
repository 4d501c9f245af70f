"""The benchmark of asynchrony: fair searches, honest times, and a run of all of it."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.asynchrony import __main__ as command
from benchmarks.asynchrony.campaign import Store
from benchmarks.asynchrony.contenders import (
    CONTENDERS,
    MAIN,
    OURS,
    SYNCHRONOUS,
    UNWEIGHTED,
    Rates,
)
from benchmarks.asynchrony.course import SPEEDS, Outcome, Setting, federation
from benchmarks.asynchrony.problem import PROBLEMS, VALIDATION
from benchmarks.asynchrony.report import sooner
from benchmarks.asynchrony.tune import START, search
from fedcore.typing import Seconds
from fedcore.workload import Client
from fedrun.data import digits


def outcome(
    accuracy: Sequence[float], seconds: Sequence[Seconds] | None = None
) -> Outcome:
    """A run with these evaluations, one a time unit if nothing else is said."""
    return Outcome(
        seconds=seconds or [float(when) for when in range(len(accuracy))],
        accuracy=accuracy,
        versions=len(accuracy),
        updates=10,
        rejected=0,
        staleness=0.0,
        largest=0,
        wall=0.0,
    )


def reaching(when: Seconds) -> Outcome:
    """A run that is known to be there at a moment."""
    return outcome([0.0, 0.9, 0.9, 0.9], [0.0, when - 2, when - 1, when])


# ----------------------------------------------------------------------- times


def test_one_lucky_evaluation_is_no_accuracy() -> None:
    lucky = outcome([0.1, 0.9, 0.1, 0.1, 0.8, 0.8, 0.8])
    assert lucky.touches(0.8) == 1
    assert lucky.reaches(0.8) == 6, "when the third of three is there, not before"
    assert lucky.best == pytest.approx(0.8)


def test_a_run_that_never_holds_its_accuracy_never_reaches_it() -> None:
    assert outcome([0.9, 0.1, 0.9, 0.1]).reaches(0.8) == math.inf
    assert outcome([0.9, 0.9]).reaches(0.8) == math.inf
    assert outcome([]).best == 0


def test_ratios_are_paired_by_seeds() -> None:
    late, early = ([reaching(when) for when in times] for times in ((20, 40), (10, 20)))
    ratio = sooner(late, early, 0.8)
    assert ratio is not None
    assert ratio == pytest.approx((2, 2, 2))
    assert sooner(late, [reaching(10), outcome([0.1] * 4)], 0.8) is None


def test_an_outcome_survives_its_file() -> None:
    before = outcome([0.1, 0.2, 0.3])
    assert Outcome.from_json(json.loads(json.dumps(before.to_json()))) == before


# ---------------------------------------------------------------------- tuning


def test_rates_are_tuned_on_images_that_nobody_trains_on() -> None:
    problem = PROBLEMS["digits"]
    _, y = digits("train")
    workload = problem.workload("", 0, tuning=True)
    assert workload.test_data is not None
    held_out, labels = workload.test_data()
    assert len(held_out) == len(labels) == -(-len(y) // VALIDATION)
    seen = {row.tobytes() for row in held_out}
    trained: list[bytes] = []
    for index in range(problem.clients):
        part = workload.train_data(Client("c", index, problem.clients))
        trained += [row.tobytes() for row in part.x[part.rows]]
    assert len(trained) == len(y) - len(labels)
    assert not seen.intersection(trained)
    final = problem.workload("", 0)
    assert final.test_data is not None
    test, _ = final.test_data()
    np.testing.assert_array_equal(test, digits("test")[0])


def test_a_search_spends_its_runs_and_finds_the_best_rates() -> None:
    tried: list[Rates] = []

    def measure(rates: Rates, limit: Seconds) -> Outcome:
        assert rates not in tried
        tried.append(rates)
        away = abs(math.log2(rates.client / 0.2)) + abs(math.log2(rates.server / 4))
        return reaching(10 + 5 * away)

    found = list(search(measure, 0.8, 100.0, runs=12))
    assert len(found) == 12
    assert tried[0] == START
    assert min(found, key=lambda each: each.order).rates == Rates(0.2, 4.0)


def test_a_search_without_success_follows_the_accuracy() -> None:
    def measure(rates: Rates, limit: Seconds) -> Outcome:
        assert limit == 100
        return outcome([min(0.7, 0.4 + 0.05 * rates.server)] * 4)

    found = list(search(measure, 0.8, 100.0, runs=6))
    assert min(found, key=lambda each: each.order).rates.server == 8
    assert all(each.to_json()["seconds"] is None for each in found)


def test_a_search_leaves_rates_at_which_nothing_is_learnt() -> None:
    def measure(rates: Rates, limit: Seconds) -> Outcome:
        noise = 0.2 + 0.01 * rates.server  # better with larger rates
        return reaching(30) if rates.server <= 0.25 else outcome([noise] * 4)

    found = list(search(measure, 0.8, 100.0, runs=12))
    assert min(found, key=lambda each: each.order).seconds == 30


def test_later_runs_have_no_longer_than_the_best_one_and_a_little() -> None:
    limits: list[Seconds] = []

    def measure(rates: Rates, limit: Seconds) -> Outcome:
        limits.append(limit)
        return reaching(30)

    list(search(measure, 0.8, 100.0, runs=3))
    assert limits == [100, 35, 35]


# ------------------------------------------------------------------ contenders


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("flight", [20, 200, 1000])
@pytest.mark.parametrize("name", [*CONTENDERS, UNWEIGHTED.name])
def test_as_many_train_at_a_time_for_all(
    name: str, flight: int, speed: str, tmp_path: Path
) -> None:
    contender = {**CONTENDERS, UNWEIGHTED.name: UNWEIGHTED}[name]
    setting = Setting(PROBLEMS["mlp"], "", speed, flight)
    rates = Rates(0.25, 2.0)
    config = federation(
        setting, contender, rates, seed=1, limit=9.0, folder=tmp_path
    ).algorithm
    if config.synchronous:
        assert config.cohort == pytest.approx(flight, abs=1)
    else:
        assert config.concurrency == flight
    server, aggregator = config.server.model_dump(), config.aggregator.model_dump()
    assert server["lr"] * aggregator.get("alpha", 1.0) == rates.server
    assert config.client.model_dump()["lr"] == rates.client


# ------------------------------------------------------------------ the command


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_command_tunes_runs_draws_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, plot = tmp_path / "asynchrony.json", tmp_path / "plots" / "curves.svg"
    monkeypatch.setattr(command, "RESULTS", results)
    words = ["--model", "digits", "--in-flight", "12", "--speeds", "log_normal"]
    words += ["--tuning", "2", "--limit", "12", "--seeds", "2", "--save"]
    assert command.main([*words, "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert "control, FedBuff, unweighted" in shown
    told = next(iter(json.loads(results.read_text())["settings"].values()))
    assert set(told["runs"]) == set(MAIN)
    assert set(told["tuning"]) == {*MAIN} - {OURS}  # at its default rates
    assert all(len(tried) == 2 for tried in told["tuning"].values())
    assert all(list(runs) == ["1", "2"] for runs in told["runs"].values())
    late = {name: runs["1"]["largest"] for name, runs in told["runs"].items()}
    assert late.pop(SYNCHRONOUS) == 0
    assert min(late.values()) > 5
    lines = ElementTree.fromstring(plot.read_text()).findall(".//{*}polyline")
    assert len(lines) == 2 * len(MAIN)

    before = results.read_text()
    assert command.main(words) == 0
    assert "to 0.8, best" not in capsys.readouterr().out  # nothing is run again
    assert results.read_text() == before

    changed = json.loads(before)
    (setting,) = changed["settings"].values()
    setting["programs"][OURS]["rests on"]["sources"]["fedcore"] = " 000000"
    results.write_text(json.dumps(changed))
    assert command.main([*words, "--no-control"]) == 0
    shown = capsys.readouterr().out
    assert f"{OURS}, seed 2" in shown
    assert f"{SYNCHRONOUS}, seed" not in shown
    (again,) = json.loads(results.read_text())["settings"].values()
    assert again["earlier runs"] == {OURS: setting["runs"][OURS]}
    assert again["runs"].keys() == again["programs"].keys() == {*MAIN}


def test_absent_data_are_told_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--data", str(tmp_path)]) != 0
    assert "no such file" in capsys.readouterr().err


def test_a_setting_leaves_those_of_others_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first, second = Store(path), Store(path)
    first.of("a", {"curve": [1, 2.5, 3]})
    second.of("b", {})
    first.write("a")
    second.write("b")
    assert set(json.loads(path.read_text())["settings"]) == {"a", "b"}
    assert "[1, 2.5, 3]" in path.read_text()
