"""What a simulated federation lives through, as its journal tells it."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import latecomer
from fedcore.controllers.bandwidth import DAY
from fedcore.coordinator.events import Evaluated, Leased, Lost, Stepped
from fedrun.config import parse_config
from fedrun.journal import Journal, verify
from fedsim.population import Population
from fedview.results import Results
from tests.fedsim import toys
from tests.fedsim.toys import toy

SYNCHRONOUS = {"kind": "fed_avg", "buffer": 3, "deadline": 50.0}
COMPRESSED = {
    "kind": "latecomer",
    "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.5}},
    "downlink": {"kind": "top_k", "ratio": 0.5},
}
ON_OFF = {"kind": "on_off", "there_seconds": 3.0, "gone_seconds": 10.0}


def limited(**settings: float) -> dict[str, Any]:
    return {"controllers": [{"kind": "bandwidth", **settings}]}


def simulated(folder: Path, **changes: Any) -> Results:
    return latecomer.run(toys.settings(**changes), toy(), folder=folder)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    algorithm=st.sampled_from([{}, SYNCHRONOUS, COMPRESSED]),
    dropout=st.sampled_from([0.0, 0.3]),
    upload_loss=st.sampled_from([0.0, 0.4]),
    ack_loss=st.sampled_from([0.0, 0.4]),
    availability=st.sampled_from([{}, ON_OFF]),
    seed=st.integers(0, 1000),
)
def test_whatever_is_lost_every_update_counts_once_and_the_run_ends(
    tmp_path_factory: pytest.TempPathFactory,
    algorithm: dict[str, Any],
    seed: int,
    **simulate: Any,
) -> None:
    folder = tmp_path_factory.mktemp("run") / "run"
    done = simulated(folder, algorithm=algorithm, simulate=simulate, seed=seed)
    assert done.summary["ended"] == "8 versions"
    assert done.summary["versions"] == 8
    updates = [(r.cid, r.seq) for r in toys.accepted(done.records)]
    assert len(set(updates)) == len(updates)
    times = [record.at for record in done.records]
    assert times == sorted(times)
    journal = Journal.open(folder)
    try:
        assert verify(journal).versions == 8
    finally:
        journal.close()


def test_a_task_takes_download_computation_and_upload(tmp_path: Path) -> None:
    done = simulated(
        tmp_path / "run",
        algorithm={"buffer": 1},
        simulate={
            "clients": 1,
            "step_seconds": 2.0,
            "link": {"up_mbit": 0.001, "down_mbit": 0.001, "latency": 0.25},
        },
        stop={"versions": 2},
    )
    (up, _), seconds = done.updates["bytes"], done.versions["seconds"]
    down = done.tasks["bytes"][done.tasks["version"].index(1)]
    rate = 125.0  # bytes a second
    # Version 0 need not travel; each request, upload and verdict takes its latency.
    assert seconds[0] == pytest.approx(2 * 0.25 + 3 * 2.0 + 0.25 + up / rate)
    assert seconds[1] - seconds[0] == pytest.approx(
        0.25 + 2 * 0.25 + down / rate + 3 * 2.0 + 0.25 + up / rate
    )


def test_whoever_is_slower_delivers_less(tmp_path: Path) -> None:
    done = simulated(
        tmp_path / "run",
        simulate={
            "speed": {"kind": "log_normal", "sigma": 1.5},
            "step_seconds": 1.0,
        },
        stop={"versions": 40},
    )
    population = Population(parse_config(done.configured.config).simulate, 0)
    delivered = [done.updates["client"].count(name) for name in population.names]
    order = np.argsort([population.compute(who, 1, 1) for who in range(4)])
    assert [delivered[i] for i in order] == sorted(delivered, reverse=True)
    assert max(delivered) > 2 * min(delivered)


def test_as_many_tasks_are_lost_as_drop_out(tmp_path: Path) -> None:
    done = simulated(
        tmp_path / "run",
        simulate={"dropout": 0.3, "away": {"kind": "same"}},
        stop={"versions": 150},
    )
    trained = [r for r in done.of(Leased) if r.task == "train"]
    assert done.summary["accepted"] / len(trained) == pytest.approx(0.7, abs=0.06)
    # Whoever is away for 30 s is lost, comes back and goes on.
    ongoing = len(trained) - done.summary["accepted"] - len(done.of(Lost))
    assert 0 <= ongoing <= 4
    assert set(done.updates["client"]) == {f"client-{i}" for i in range(4)}


def test_a_short_absence_goes_unnoticed(tmp_path: Path) -> None:
    done = simulated(
        tmp_path / "run",
        simulate={"dropout": 0.3, "away": {"kind": "same"}, "away_seconds": 1.0},
    )
    assert not done.of(Lost)


def test_devices_that_come_and_go_are_lost_and_return(tmp_path: Path) -> None:
    done = simulated(
        tmp_path / "run",
        simulate={"availability": ON_OFF, "step_seconds": 0.3},
        stop={"versions": 30},
    )
    lost = {record.cid for record in done.of(Lost)}
    assert lost
    last = {r.cid: r.at for r in toys.accepted(done.records)}
    assert any(last[r.cid] > r.at for r in done.of(Lost) if r.cid in last)


def test_an_evaluator_measures_every_so_many_versions_and_takes_no_time(
    tmp_path: Path,
) -> None:
    done = simulated(tmp_path / "run", stop={"versions": 7})
    assert done.central["version"] == [0, 2, 4, 6, 7]
    published = {r.version: r.at for r in done.of(Stepped)}
    for record in done.of(Evaluated):
        assert record.at == published.get(record.version, done.started)
    assert done.central["loss"][-1] < done.central["loss"][0]
    assert done.central["samples"] == [8] * 5


def test_clients_evaluate_on_data_of_their_own(tmp_path: Path) -> None:
    workload = toy(valid_data=lambda client: toys.points(9, 2 + client.index))
    config = toys.settings(evaluate={"clients": True})
    done = latecomer.run(config, workload, folder=tmp_path / "run")
    assert set(done.metrics["samples"]) >= {2, 3, 4, 5}
    assert done.federated["loss"][-1] < done.federated["loss"][0]


def test_a_synchronous_round_waits_for_its_cohort_up_to_the_deadline(
    tmp_path: Path,
) -> None:
    done = simulated(
        tmp_path / "run",
        algorithm={"kind": "fed_avg", "buffer": 4, "deadline": 20.0},
        simulate={"dropout": 0.4, "away": {"kind": "same"}, "away_seconds": 300.0},
    )
    reasons = done.versions["reason"]
    assert "deadline" in reasons
    for reason, updates in zip(reasons, done.versions["updates"], strict=True):
        assert updates == 4 if reason == "buffer" else updates < 4


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_a_budget_of_bytes_is_kept_and_the_run_goes_on(
    tmp_path: Path, lost: float
) -> None:
    budget = 700
    done = simulated(
        tmp_path / "run",
        algorithm=COMPRESSED | limited(daily=budget),
        simulate={"step_seconds": 600.0, "upload_loss": lost},
        stop={"versions": None, "seconds": 4 * DAY},
    )
    used: Counter[tuple[str, int]] = Counter()
    for table in (done.updates, done.tasks):
        for client, at, nbytes in zip(
            table["client"], table["seconds"], table["bytes"], strict=True
        ):
            used[client, int(at // DAY)] += nbytes
    largest = max(done.tasks["bytes"])
    assert max(used.values()) <= budget + largest
    assert {day for _, day in used} >= {0, 1, 2, 3}
    assert np.mean([n for (_, day), n in used.items() if day < 4]) > budget / 2


def test_a_slow_link_sends_shorter_messages_and_loses_nothing(tmp_path: Path) -> None:
    def sizes(folder: Path, limits: dict[str, Any]) -> list[int]:
        link = {"up_mbit": 0.00001, "latency": 0.0}
        done = simulated(
            folder,
            algorithm=COMPRESSED | limits,
            simulate={"link": link},
            stop={"versions": 20},
        )
        found: list[int] = done.updates["bytes"]
        return found

    usual = sizes(tmp_path / "usual", {})
    short = sizes(tmp_path / "short", limited(upload_time=1.0))
    assert np.mean(short[8:]) < np.mean(usual[8:])
