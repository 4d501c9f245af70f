"""``latecomer.run``: equal seeds, ends, folders, and users whose code raises."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Evaluated, Failed
from fedcore.errors import ConfigError, UserCodeError
from fedcore.workload import Client, Trained, TrainingTask, Workload
from fedrun.config import parse_config
from fedrun.run import Run
from fedview.callbacks import Notice
from tests.fedsim import toys
from tests.fedsim.toys import (
    digests,
    gradient,
    points,
    settings,
    toy,
    train_data,
    write,
)
from tests.integration.typed import desk

# Everything that chance decides.
EVENTFUL: dict[str, Any] = {
    # Whole multiples of a step lead two runs to the same tiny model now and then.
    "algorithm": {
        "kind": "latecomer",
        "buffer": 2,
        "uplink": {"kind": "error_feedback"},
        "downlink": {"kind": "top_k"},
    },
    "simulate": {
        "clients": 5,
        "speed": {"kind": "log_normal", "sigma": 1.0},
        "jitter": {"kind": "exponential"},
        "link": {"spread": {"kind": "pareto"}},
        "availability": {"kind": "on_off", "there_seconds": 20, "gone_seconds": 10},
        "dropout": 0.1,
        "upload_loss": 0.1,
        "ack_loss": 0.1,
    },
}
ROUNDS: dict[str, Any] = {
    "algorithm": {"kind": "fed_avg", "buffer": 3, "over_selection": 1.3},
    "simulate": {"clients": 9, "speed": {"kind": "log_normal"}},
}


@pytest.mark.parametrize("changes", [EVENTFUL, ROUNDS], ids=["eventful", "rounds"])
def test_the_same_seed_gives_the_same_run_and_another_seed_another(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    def run(name: str, seed: int) -> list[str]:
        config = settings(**changes, seed=seed)
        folder = tmp_path / name
        latecomer.run(config, toy(), folder=folder)
        return toys.digests(toys.records(folder))

    first, again, other = run("first", 1), run("again", 1), run("other", 2)
    assert len(first) == 8
    assert first == again
    assert not set(first) & set(other)


def test_the_records_of_equal_runs_are_equal_in_all_but_the_name(
    tmp_path: Path,
) -> None:
    told = []
    for name in ("a", "b"):
        latecomer.run(settings(**EVENTFUL), toy(), folder=tmp_path / name)
        told.append(toys.records(tmp_path / name)[1:])
    assert told[0] == told[1]


def test_a_config_may_be_a_mapping_or_a_checked_one(tmp_path: Path) -> None:
    configs: list[Any] = [settings(), parse_config(settings())]
    models = [
        latecomer.run(config, toy(), folder=tmp_path / str(i)).model()["w"]
        for i, config in enumerate(configs)
    ]
    assert models[0].tolist() == models[1].tolist()


@pytest.mark.parametrize(
    ("stop", "ended"),
    [
        ({"versions": 3}, "3 versions"),
        ({"versions": None, "updates": 5}, "5 updates"),
        ({"versions": None, "seconds": 2.0}, "2 seconds"),
        ({"versions": None, "target": {"loss": 1.0}}, "target reached"),
    ],
)
def test_a_run_ends_with_a_reason(
    stop: dict[str, Any], ended: str, tmp_path: Path
) -> None:
    done = latecomer.run(settings(stop=stop), toy(), folder=tmp_path / "run")
    assert done.summary["ended"] == ended


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"stop": {"versions": None}}, "stop: a simulation needs an end"),
        ({"stop": {"version": 3}}, "did you mean 'versions'?"),
        ({"evaluate": {"clients": True}}, "needs a workload with valid_data="),
        (
            {"algorithm": {"uplink": {"kind": "topk"}}},
            "unknown compressor 'topk'; did you mean 'top_k'?",
        ),
    ],
)
def test_a_config_that_cannot_be_simulated_is_refused(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("?", r"\?")):
        latecomer.run(settings(**changes), toy(), folder=tmp_path / "run")


@pytest.mark.parametrize(
    "algorithm",
    [{"min_clients": 101}, {"kind": "fed_avg", "buffer": 101, "minimum": 101}],
    ids=["min_clients", "minimum"],
)
def test_an_algorithm_that_needs_more_clients_than_there_are_is_refused(
    algorithm: dict[str, Any], tmp_path: Path
) -> None:
    config = settings(algorithm=algorithm)
    del config["simulate"]
    with pytest.raises(
        ConfigError, match=r"^100 clients are simulated, the algorithm needs 101$"
    ):
        latecomer.run(config, toy(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_target_that_nothing_measures_is_no_end(tmp_path: Path) -> None:
    def run(workload: Workload, **stop: Any) -> None:
        latecomer.run(settings(stop=stop), workload, folder=tmp_path / "run")

    blind, acc = toy(test_data=None), {"acc": 0.9}
    with pytest.raises(ConfigError, match=r"^stop\.target: nothing evaluates it"):
        run(blind, versions=None, target=acc)
    with pytest.raises(
        ConfigError, match=r"^stop\.target: acc is not evaluated; evaluated: loss$"
    ):
        run(toy(), versions=None, target=acc)


@pytest.mark.parametrize("test_data", [None, lambda: toys.points(0)])
def test_a_target_that_nothing_measures_does_no_harm_beside_another_end(
    test_data: Any, tmp_path: Path
) -> None:
    config = settings(stop={"versions": 3, "target": {"acc": 0.9}})
    done = latecomer.run(config, toy(test_data=test_data), folder=tmp_path / "run")
    assert done.summary["ended"] == "3 versions"


def test_each_run_takes_the_next_free_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = settings(server={"journal": "runs/toy"}, stop={"versions": 1})
    folders = [latecomer.run(config, toy()).folder for _ in range(2)]
    assert [str(f) for f in folders] == ["runs/toy-sim-1", "runs/toy-sim-2"]


def test_there_need_not_be_an_evaluator(tmp_path: Path) -> None:
    done = latecomer.run(settings(), toy(test_data=None), folder=tmp_path / "run")
    assert done.metrics == {}
    assert done.summary["versions"] == 8


def test_the_last_and_the_best_model_are_kept(tmp_path: Path) -> None:
    done = latecomer.run(settings(), toy(), folder=tmp_path / "run")
    assert done.model("initial")["w"].tolist() == [0.0] * toys.DIM
    x, y = toys.points(0)
    value, version = done.best["loss"]
    assert gradient(done.model("best"), x, y)[0] == pytest.approx(value)
    if version == 8:
        assert np.array_equal(done.model("best")["w"], done.model("last")["w"])


def test_whoever_watches_sees_every_event_with_its_run(tmp_path: Path) -> None:
    seen: list[Notice] = []

    def watch(run: Run, event: Notice) -> None:
        assert run.coordinator.state.at >= event.at
        seen.append(event)

    latecomer.run(settings(), toy(), folder=tmp_path / "run", on_event=watch)
    assert sum(isinstance(event, Evaluated) for event in seen) == 5


# ------------------------------------------------------------ small and odd data


def test_a_client_with_one_sample_takes_part(tmp_path: Path) -> None:
    def lone(client: Client) -> Any:
        return toys.points(client.index + 1, 1 if client.index == 0 else 8)

    done = latecomer.run(settings(), toy(train_data=lone), folder=tmp_path / "run")
    samples = dict(zip(done.updates["client"], done.updates["samples"], strict=True))
    assert samples["client-0"] == 1
    assert samples["client-1"] == 8


def test_a_client_without_rows_does_not_end_the_others(tmp_path: Path) -> None:
    def empty(client: Client) -> Any:
        return toys.points(1, 0 if client.index == 2 else 8)

    done = latecomer.run(settings(), toy(train_data=empty), folder=tmp_path / "run")
    assert done.summary["failed"]["client-2"] == (
        "train_data of client-2 returned no samples"
    )
    assert done.summary["versions"] == settings()["stop"]["versions"]


# ------------------------------------------------------- users whose code raises


SLOW = {"clients": 3, "step_seconds": 1.0}


def failing(who: int, times: int = 1_000_000) -> Callable[[Client], Any]:
    """Data which this client cannot read, at least not at first."""
    tries = []

    def read(client: Client) -> Any:
        if client.index == who:
            tries.append(client)
            if len(tries) <= times:
                raise RuntimeError("no such sensor")
        return train_data(client)

    return read


@pytest.mark.parametrize("changes", [{}, ROUNDS], ids=["asynchronous", "synchronous"])
def test_a_client_whose_code_raises_is_reported_and_the_federation_goes_on(
    changes: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(**changes, stop={"versions": 30})
    workload = toy(train_data=failing(1))
    with caplog.at_level(logging.WARNING, "fedsim"):
        done = latecomer.run(config, workload, folder=tmp_path / "run")
    assert done.summary["ended"] == "30 versions"
    assert "client-1" not in done.updates["client"]
    failures = done.of(Failed)
    assert {r.cid for r in failures} == {"client-1"}
    assert 1 <= len(failures) <= 5
    assert all("RuntimeError: no such sensor" in r.error for r in failures)
    assert [record.getMessage() for record in caplog.records] == [
        "client-1: train_data of client-1 raised RuntimeError: no such sensor"
    ]


def test_a_client_whose_code_raised_for_a_while_takes_part_again(
    tmp_path: Path,
) -> None:
    config = settings(simulate=SLOW, stop={"versions": None, "seconds": 100.0})
    workload = toy(train_data=failing(1, times=4))
    done = latecomer.run(config, workload, folder=tmp_path / "run")
    assert len(done.of(Failed)) == 4
    assert "client-1" in done.updates["client"]


def test_a_client_gives_up_after_five_failures_in_a_row(tmp_path: Path) -> None:
    config = settings(simulate=SLOW, stop={"versions": None, "seconds": 100.0})
    done = latecomer.run(config, toy(train_data=failing(1)), folder=tmp_path / "run")
    waits = np.diff([record.at for record in done.of(Failed)])
    assert waits.round().tolist() == [4, 8, 16, 32]


@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "fed_avg", "buffer": 4, "minimum": 4},
        {"kind": "fed_buff", "min_clients": 4},
    ],
    ids=["minimum", "min_clients"],
)
def test_where_too_few_are_left_for_a_version_the_run_ends(
    algorithm: dict[str, Any], tmp_path: Path
) -> None:
    config = settings(algorithm=algorithm, stop={"versions": 1000})
    config["simulate"] = {"clients": 4, "step_seconds": 5.0}
    with pytest.raises(UserCodeError, match=r"^client-1: 5 times in a row: train_data"):
        latecomer.run(config, toy(train_data=failing(1)), folder=tmp_path / "run")


def broken(*_: Any) -> Any:
    return 1 / 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gradient": broken}, r"client-0, client-1, .* cannot train: training"),
        ({"train_data": broken}, r"client-\d: 5 times in a row: train_data of"),
        ({"evaluate": broken}, "evaluation"),
        ({"test_data": broken}, "test_data"),
        ({"initial": broken}, "initial"),
    ],
)
def test_where_nobody_can_work_the_users_error_ends_the_run(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    sentence = f"^{sentence}.* raised ZeroDivisionError: division by zero$"
    with pytest.raises(UserCodeError, match=sentence) as caught:
        latecomer.run(settings(), toy(**changes), folder=tmp_path / "run")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_of_many_clients_that_train_at_once_nobody_is_too_late(tmp_path: Path) -> None:
    config = settings(
        algorithm={"kind": "latecomer", "buffer": 2},
        simulate={"clients": 300},
        stop={"versions": 150},
        evaluate={"every_versions": 1000},
    )
    results = latecomer.run(config, toy(), folder=tmp_path / "run")
    assert "rejected_stale" not in results.summary["updates"]
    assert max(results.updates["staleness"]) > 100


def test_a_path_is_a_config_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with desk(project, monkeypatch):
        write()
        monkeypatch.chdir(tmp_path)
        here = latecomer.run("project/fed.yaml", folder=str(tmp_path / "a"))
        there = latecomer.run(project / "fed.yaml", toy(), folder=tmp_path / "b")
        assert digests(here.records) == digests(there.records) != []
        beside = latecomer.run("project/fed.yaml")
        assert beside.folder == project / "runs/latecomer-sim-1"
        with pytest.raises(ConfigError, match=r"nowhere.yaml: No such file"):
            latecomer.run("nowhere.yaml")


def test_a_config_without_an_app_needs_a_workload() -> None:
    with pytest.raises(ConfigError, match="app: is missing; the simulator needs the"):
        latecomer.run(settings())


def test_data_for_the_clients_can_be_given_in_python(tmp_path: Path) -> None:
    seen = set()

    def train_data(client: Client) -> Any:
        seen.add((client.args["site"], client.args["year"]))
        return points(client.index)

    given = settings(simulate={"args": {"site": "x", "year": 2024}})
    latecomer.run(
        given,
        toy(train_data=train_data),
        folder=tmp_path / "run",
        data={"site": "north"},
    )
    assert seen == {("north", "2024")}


def test_a_loop_of_its_own_keeps_a_state_for_each_client(tmp_path: Path) -> None:
    seen: dict[str, list[tuple[int, int]]] = {}

    def train(params: Any, data: Any, task: TrainingTask) -> Trained:
        count = task.state.get("tasks", 0)
        seen.setdefault(task.client.name, []).append((count, task.version))
        return Trained(params, samples=1, state={"tasks": count + 1})

    app = toy(gradient=None, train=train)
    latecomer.run(settings(), app, folder=tmp_path / "run")
    assert len(seen) == 4
    for tasks in seen.values():
        assert [count for count, _ in tasks] == list(range(len(tasks)))
        versions = [version for _, version in tasks]
        assert versions == sorted(versions)
