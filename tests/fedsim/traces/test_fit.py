"""Distributions that suit what was recorded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import latecomer
from fedcore.distributions import (
    Empirical,
    ExponentialDistribution,
    Fitted,
    LogNormal,
    Pareto,
    Same,
    UniformDistribution,
    Weibull,
)
from fedrun.config import SimulateConfig
from fedsim.cli import main
from fedsim.population import Population
from fedsim.traces.fit import fit, fit_section, ks_statistic
from fedsim.traces.journal import read_clients
from fedview.results import Results
from tests.fedsim.toys import settings, toy

SHARES_N = (np.arange(400) + 0.5) / 400


def test_the_distance_is_the_largest_between_the_shares() -> None:
    unit = Fitted(2.0, UniformDistribution(low=1e-9, high=1.0))
    # Of {0.5, 1.6} uniform on (0, 2): at 0.5 a quarter is below, a half up to it; at
    # 1.6 four fifths are below, and half before it.
    assert ks_statistic(np.array([1.6, 0.5]), unit) == pytest.approx(0.3)
    even_N = 2.0 * SHARES_N
    assert ks_statistic(even_N, unit) == pytest.approx(1 / 800)


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=30))
def test_the_distance_is_that_of_its_definition(values: list[float]) -> None:
    fitted = Fitted(1.5, ExponentialDistribution())
    share = {x: float(fitted.config.cdf(np.array([x / 1.5]))[0]) for x in values}
    distances = [
        abs(sum(y <= x for y in values) / len(values) - share[x]) for x in values
    ] + [abs(sum(y < x for y in values) / len(values) - share[x]) for x in values]
    assert ks_statistic(np.array(values), fitted) == pytest.approx(max(distances))


@pytest.mark.parametrize(
    "config",
    [
        LogNormal(sigma=0.7),
        Pareto(shape=2.5),
        UniformDistribution(low=0.2, high=1.8),
        Weibull(shape=3.0),
    ],
    ids=lambda config: config.kind,
)
def test_the_kind_that_values_are_from_is_found(config: Any) -> None:
    found = fit("speed", (3.0 * config.quantile(SHARES_N)).tolist())
    assert found.chosen.config.kind == config.kind
    assert found.chosen.scale == pytest.approx(3.0, rel=0.02)
    assert next(iter(found.statistics.values())) < found.bound / 2
    assert list(found.statistics.values()) == sorted(found.statistics.values())


def test_values_that_are_alike_have_no_spread() -> None:
    found = fit("jitter", [2.0, 2.0005, 2.001])
    assert found.chosen == Fitted(2.0005, Same())


def test_values_that_no_kind_suits_stand_for_themselves() -> None:
    values = [1.0] * 200 + [100.0] * 200
    found = fit("speed", values)
    assert isinstance(found.chosen.config, Empirical)
    scaled = found.chosen.scale * np.array(found.chosen.config.values)
    assert set(scaled.tolist()) == {1.0, 100.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = settings(
        simulate={
            "clients": 40,
            "step_seconds": 0.5,
            "speed": {"kind": "log_normal", "sigma": 0.8},
            "jitter": {"kind": "log_normal", "sigma": 0.2},
            "dropout": 0.15,
            "link": {"up_mbit": 1000, "down_mbit": 1000, "latency": 0.03},
        },
        stop={"versions": 400},
    )
    return latecomer.run(config, toy(), folder=tmp_path_factory.mktemp("runs") / "run")


def test_a_fitted_population_is_like_the_recorded_one(run: Results) -> None:
    recording = read_clients(run)
    section, fits = fit_section(recording)
    config = SimulateConfig.model_validate(section)
    assert config.clients == 40
    assert config.dropout.share == pytest.approx(0.15, abs=0.03)
    assert config.link.latency == pytest.approx(0.03)
    speed, jitter, away = fits
    assert (speed.what, jitter.what, away.what) == ("speed", "jitter", "away")
    assert isinstance(jitter.chosen.config, LogNormal)
    assert jitter.chosen.config.sigma == pytest.approx(0.2, abs=0.02)
    assert all(next(iter(f.statistics.values())) <= f.bound for f in fits)
    recorded = [
        seconds
        for client in recording.clients
        for seconds in client.seconds_a_step(0.03)[:5]
    ]
    like = Population(config.model_copy(update={"clients": 4000}), 1)
    drawn_K = [like.compute(who, 1, 1) for who in range(4000)]
    for share in (0.25, 0.5, 0.75):
        assert np.quantile(drawn_K, share) == pytest.approx(
            np.quantile(recorded, share), rel=0.25
        )


def test_the_command_writes_the_trace_and_prints_the_section(
    run: Results, tmp_path: Path
) -> None:
    out = tmp_path / "t.csv"
    words = ["trace", str(run.folder), "-o", str(out), "--fit"]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0
    section = yaml.safe_load(done.stdout)["simulate"]
    assert SimulateConfig.model_validate(section).clients == 40
    assert "40 clients, 800 tasks" in done.stderr
    assert "log_normal 0." in " ".join(done.stderr.split())
    population = Population(SimulateConfig(trace=out), 0)
    assert population.count == 40


def test_a_run_without_finished_tasks_cannot_be_fitted(run: Results) -> None:
    recording = read_clients(run)
    for client in recording.clients:
        client.segments[:] = [s for s in client.segments if s.state != "task"]
    with pytest.raises(Exception, match="no task was finished in this run"):
        fit_section(recording)
