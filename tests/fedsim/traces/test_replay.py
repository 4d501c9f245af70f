"""Traces of runs, and populations made of traces."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Enrolled, Leased
from fedcore.errors import ConfigError
from fedcore.workload import Client
from fedrun.config import SimulateConfig, parse_config
from fedrun.run import start_run
from fedsim.population import Population
from fedsim.traces import write_trace
from fedsim.traces.journal import read_clients
from fedview.results import Results
from tests.fedsim import toys
from tests.fedsim.toys import linear, settings, toy

VARIED: dict[str, Any] = {
    "speed": {"kind": "log_normal", "sigma": 0.8},
    "jitter": {"kind": "uniform", "low": 0.8, "high": 1.2},
    "link": {"up_mbit": 0.01, "down_mbit": 0.01, "latency": 0.03},
    "step_seconds": 0.5,
}
ROUNDS = {"kind": "fed_avg", "buffer": 3}


def simulated(folder: Path, **changes: Any) -> Results:
    return latecomer.run(settings(**changes), toy(), folder=folder)


def traced(run: Results, path: Path) -> Path:
    write_trace(path, read_clients(run).clients)
    return path


def population(**simulate: Any) -> Population:
    return Population(SimulateConfig.model_validate(simulate), 0)


def write(folder: Path, rows: str, columns: str = "client,start,end,state") -> Path:
    path = folder / "t.csv"
    path.write_text(f"{columns}\n{rows}\n")
    return path


@pytest.mark.parametrize("kind", ["exact", "stacked"])
def test_clients_of_a_trace_have_the_data_that_they_had(
    tmp_path: Path, kind: str
) -> None:
    rows = "ann,0,,there,3,16\nbob,0,,there,0,2\ncid,0,,there,15,16"
    trace = write(tmp_path, rows, "client,start,end,state,index,count")
    asked: set[tuple[str, int, int]] = set()

    def train_data(client: Client) -> Any:
        asked.add((client.name, client.index, client.count))
        return toys.train_data(client)

    def trained(trace: Path, folder: Path) -> Results:
        engine = {"kind": kind}
        config = settings(simulate={"trace": str(trace), "engine": engine})
        return latecomer.run(config, linear(train_data=train_data), folder=folder)

    first = trained(trace, tmp_path / "first")
    had = {("ann", 3, 16), ("bob", 0, 2), ("cid", 15, 16)}
    assert asked == had
    # What a journal holds of them comes out of it again.
    again = traced(first, tmp_path / "again.csv")
    asked.clear()
    trained(again, tmp_path / "second")
    assert asked == had


def test_clients_that_said_no_place_get_that_in_the_trace(tmp_path: Path) -> None:
    run = simulated(tmp_path / "run", simulate={"clients": 3})
    run.__dict__["records"] = [
        replace(r, index=0, count=1) if isinstance(r, Enrolled) else r
        for r in run.records
    ]
    clients = read_clients(run).clients
    assert {(client.index, client.count) for client in clients} == {(None, None)}
    devices = population(trace=str(traced(run, tmp_path / "trace.csv")))
    assert [devices.place(who) for who in range(3)] == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("algorithm", [{}, ROUNDS], ids=["buffered", "rounds"])
def test_a_replayed_trace_takes_the_time_that_the_run_took(
    tmp_path: Path, algorithm: dict[str, Any]
) -> None:
    changes = {"algorithm": algorithm, "stop": {"versions": 40}}
    first = simulated(tmp_path / "first", simulate=VARIED, **changes)
    trace = traced(first, tmp_path / "trace.csv")
    again = simulated(tmp_path / "again", simulate={"trace": str(trace)}, **changes)
    # What was still being computed at the end is not in the record.
    for run in (first, again):
        assert len(run.versions["seconds"]) == 40
    assert again.versions["seconds"][:30] == pytest.approx(
        first.versions["seconds"][:30], rel=1e-6
    )
    assert toys.digests(again.records)[:30] == toys.digests(first.records)[:30]


def test_what_was_lost_and_came_back_is_in_the_trace(tmp_path: Path) -> None:
    lossy = {**VARIED, "dropout": 0.2, "away_seconds": 10.0}
    run = simulated(tmp_path / "run", simulate=lossy, stop={"versions": 200})
    recording = read_clients(run)
    begun = recording.finished + recording.unfinished
    assert recording.finished == run.summary["accepted"]
    assert recording.unfinished / begun == pytest.approx(0.2, abs=0.05)
    # Those of 5 seconds and less go unnoticed; exponential ones have no memory.
    assert np.mean(recording.absences) == pytest.approx(15, rel=0.25)
    assert min(recording.absences) > 5
    trace = traced(run, tmp_path / "trace.csv")
    again = simulated(
        tmp_path / "again", simulate={"trace": str(trace)}, stop={"versions": 200}
    )
    assert again.seconds == pytest.approx(run.seconds, rel=0.1)
    assert len(again.losses["client"]) == pytest.approx(
        len(run.losses["client"]), rel=0.2
    )


def test_a_trace_tells_durations_delays_and_presence(tmp_path: Path) -> None:
    run = simulated(
        tmp_path / "run",
        simulate={"clients": 2, "step_seconds": 2.0, "link": {"latency": 0.25}},
        stop={"versions": 3},
    )
    for client in read_clients(run).clients:
        assert client.latency == pytest.approx(0.25)
        states = [segment.state for segment in client.segments]
        assert states[:4] == ["task", "there", "task", "there"]
        # Transfers are a part of it: nearly nothing at 10 Mbit/s.
        taken = client.seconds_a_step(0.25)
        assert taken == pytest.approx([2.0] * len(taken), rel=1e-3)
        assert list(client.stays) == [(0.0, math.inf)]


def test_a_client_that_never_finished_is_as_slow_as_that(tmp_path: Path) -> None:
    rows = "a,0,,there,0.1\nb,0,,there,0.1\nc,0,,there,1000"
    trace = write(tmp_path, rows, "client,start,end,state,step_seconds")
    run = simulated(
        tmp_path / "run", simulate={"trace": str(trace)}, stop={"versions": 20}
    )
    *_, slow = read_clients(run).clients
    assert [segment.state for segment in slow.segments] == ["task", "there"]
    assert slow.seconds_a_step(0.0) == pytest.approx([run.seconds / 3])


def test_recorded_tasks_are_taken_in_turn(tmp_path: Path) -> None:
    columns = "client,start,end,state,steps,latency,step_seconds"
    rows = "a,0,5,task,1,1,\na,5,12,task,2,,\nb,0,9,there,,,7\nc,0,9,there,,,"
    devices = population(trace=str(write(tmp_path, rows, columns)), step_seconds=0.5)
    assert devices.names == ["a", "b", "c"]
    assert [devices.compute(0, task, 10) for task in (1, 2, 3, 4)] == [20, 20, 20, 20]
    rows = rows.replace("12", "16")
    devices = population(trace=str(write(tmp_path, rows, columns)), step_seconds=0.5)
    assert [devices.compute(0, task, 10) for task in (1, 2, 3, 4)] == [20, 40, 20, 40]
    assert [devices.compute(who, 5, 10) for who in (1, 2)] == [70, 5]
    assert devices.upload(0, 10**9) == 1.0  # within the task already
    assert devices.upload(1, 10**6) == pytest.approx(0.05 + 0.8)


def test_a_link_of_a_trace_is_the_devices_own(tmp_path: Path) -> None:
    rows = "a,0,,there,8,80,0.5\nb,0,,there,,inf,"
    columns = "client,start,end,state,up_mbit,down_mbit,latency"
    devices = population(trace=str(write(tmp_path, rows, columns)))
    assert devices.upload(0, 10**6) == pytest.approx(0.5 + 1.0)
    assert devices.download(0, 10**6) == pytest.approx(1.0 + 0.1)
    assert devices.upload(1, 10**6) == pytest.approx(0.05 + 0.8)
    assert devices.download(1, 10**6) == pytest.approx(0.1)


def test_presence_of_a_file_is_shared_out_in_turn(tmp_path: Path) -> None:
    file = str(write(tmp_path, "a,0,5,there\na,5,9,away\nb,0,6,away\nb,6,8,there"))
    once = population(clients=5, availability={"kind": "trace", "file": file})
    assert once.names[4] == "client-4"
    assert [once.is_there(who, 1.0) for who in range(5)] == [1, 0, 1, 0, 1]
    assert [once.is_there(who, 7.0) for who in range(5)] == [0, 1, 0, 1, 0]
    assert once.next_change(1, 7.0) == (8.0, False)
    assert once.next_change(1, 8.0) is None
    assert once.deserted == 8.0
    again = population(
        clients=5, availability={"kind": "trace", "file": file, "repeat": True}
    )
    assert again.next_change(1, 8.0) == (15.0, True)
    assert again.deserted == math.inf


def test_another_availability_takes_the_place_of_a_traces(tmp_path: Path) -> None:
    trace = str(write(tmp_path, "a,0,5,there"))
    assert population(trace=trace).next_change(0, 1.0) == (5.0, False)
    devices = population(trace=trace, availability={"kind": "diurnal", "share": 1.0})
    assert devices.next_change(0, 1.0) is None


def test_nobody_there_is_an_error_at_once(tmp_path: Path) -> None:
    file = str(write(tmp_path, "a,0,5,away\nb,0,5,there"))
    with pytest.raises(ConfigError, match="none of its first 1 clients is ever there"):
        population(clients=1, availability={"kind": "trace", "file": file})


def test_what_repeats_needs_an_end(tmp_path: Path) -> None:
    file = str(write(tmp_path, "a,0,,there"))
    with pytest.raises(ConfigError, match=r"repeat needs an end in every client's"):
        population(trace=file, availability={"kind": "trace", "repeat": True})


def test_a_client_cannot_be_called_as_the_evaluator_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a client is called 'evaluator'"):
        population(trace=str(write(tmp_path, "evaluator,0,,there")))


@pytest.mark.parametrize("algorithm", [{}, ROUNDS, {**ROUNDS, "deadline": 20.0}])
def test_a_run_whose_clients_are_all_gone_ends_with_an_error(
    tmp_path: Path, algorithm: dict[str, Any]
) -> None:
    trace = str(write(tmp_path, "a,0,10,there\nb,0,12,there\nc,0,9,there"))
    changes = {"algorithm": algorithm, "simulate": {"trace": trace}}
    with pytest.raises(ConfigError, match=r"after 12 seconds no client is ever there"):
        simulated(tmp_path / "run", **changes, stop={"versions": 10_000})
    ended = Results(tmp_path / "run")
    assert max(record.at for record in toys.accepted(ended.records)) < 12
    for stop in ({"versions": 4}, {"versions": None, "seconds": 60.0}):
        folder = tmp_path / f"run-{'versions' in stop and stop['versions']}"
        assert simulated(folder, **changes, stop=stop).summary["ended"]


def test_a_message_to_a_client_that_is_away_is_lost(tmp_path: Path) -> None:
    # Who waits for a round and goes is not brought back by the server's answer.
    rows = "a,0,1000,there\nb,0,1000,there\nc,0,4,there\nc,4,500,away\nc,500,1000,there"
    run = simulated(
        tmp_path / "run",
        algorithm={"kind": "fed_avg", "buffer": 2},
        simulate={"trace": str(write(tmp_path, rows)), "step_seconds": 0.3},
        stop={"versions": None, "seconds": 600.0},
    )
    delivered = [r.at for r in toys.accepted(run.records) if r.cid == "c"]
    assert delivered
    assert not [at for at in delivered if 4 < at < 500]


def test_labels_of_lost_clients_are_those_of_their_data(tmp_path: Path) -> None:
    def data(client: Any) -> Any:
        x, _ = toys.points(client.index)
        return x, np.full(len(x), client.index % 2)

    config = settings(
        simulate={"dropout": {"kind": "by_labels", "labels": [1], "share": 0.9}},
        stop={"versions": 40},
    )
    run = latecomer.run(config, toy(train_data=data), folder=tmp_path / "run")
    tasks = [r for r in run.of(Leased) if r.task == "train"]
    lost = {0: [0, 0], 1: [0, 0]}
    for record in tasks:
        lost[int(record.cid[-1]) % 2][0] += 1
    for record in toys.accepted(run.records):
        lost[int(record.cid[-1]) % 2][1] += 1
    assert lost[0][1] >= lost[0][0] - 2
    assert lost[1][1] < 0.5 * lost[1][0]


def test_a_run_without_clients_has_no_trace(tmp_path: Path) -> None:
    config = parse_config(settings(server={"journal": str(tmp_path / "empty")}))
    model = toy().flat()
    run = start_run(config, model.spec, model.initial(toys.KEY), 0.0, durable=False)
    run.journal.close()
    with pytest.raises(ConfigError, match="empty has no clients"):
        read_clients(Results(tmp_path / "empty"))
