"""Who is told of metrics as a run goes."""

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.errors import ConfigError
from fedcore.interruption import Interruption
from fedcore.workload import Workload
from fedview.callbacks import (
    CALLBACKS,
    Callback,
    EarlyStopping,
    Notifier,
    TensorBoard,
)
from fedview.callbacks.base import flat
from fedview.results import Results
from tests.fedsim.toys import points, settings, toy, write
from tests.imports import imported_by
from tests.integration.typed import desk, typed


class Ear(Callback):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_begin(self, config: Mapping[str, Any], folder: Path) -> None:
        self.heard.append(("begin", config["algorithm"]["kind"], folder.name))

    def on_metrics(
        self, version: int, seconds: float, values: Mapping[str, float]
    ) -> None:
        self.heard.append((version, seconds, dict(values)))

    def on_end(self, results: Results | None) -> None:
        self.heard.append("stopped" if results is None else "end")


def simulated(folder: Path, **changes: Any) -> tuple[list[Any], Results]:
    ear = Ear()
    with Notifier([ear]) as notifier:
        results = latecomer.run(
            settings(**changes.pop("settings", {})),
            toy(**changes),
            folder=folder,
            on_event=notifier,
        )
        notifier.end(results)
    return ear.heard, results


class Stopper(Callback):
    """Has seen enough at some version."""

    def __init__(self, version: int) -> None:
        self.version, self.ended = version, ""

    def on_metrics(
        self, version: int, seconds: float, values: Mapping[str, float]
    ) -> None:
        if version >= self.version:
            self.stop("seen enough")

    def on_end(self, results: Results | None) -> None:
        self.ended = "" if results is None else results.summary["ended"]


@pytest.mark.parametrize("engine", ["one_by_one", "stacked"])
def test_a_callback_that_stops_a_run_keeps_its_results(
    engine: str, tmp_path: Path
) -> None:
    if engine == "stacked":
        pytest.importorskip("torch")
        from tests.fedsim.test_stacked import WORKLOAD

        workload: Workload = WORKLOAD
    else:
        workload = toy()
    stopper = Stopper(4)
    given = settings(stop={"versions": 500}, simulate={"engine": {}})
    results = latecomer.run(
        given, workload, folder=str(tmp_path / "run"), callbacks=[stopper]
    )
    assert results.summary["ended"] == stopper.ended == "seen enough"
    assert 4 <= results.summary["versions"] < 20
    assert results.central["version"][-1] == results.summary["versions"]
    assert results.model("last")


def test_a_run_without_progress_is_stopped_early(tmp_path: Path) -> None:
    early = EarlyStopping("loss", patience=3, min_delta=1e9)
    results = latecomer.run(
        settings(stop={"versions": 500}), toy(), folder=tmp_path / "run",
        callbacks=[early],
    )  # fmt: skip
    ended = results.summary["ended"]
    assert ended.startswith("loss did not improve in 3 evaluations: best ")
    assert ended.endswith(" at version 0")
    measured = results.central["version"]
    assert measured[:4] == [0, 2, 4, 6]
    assert measured[-1] < 20


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"patience": 0}, "patience 0: expected 1 or more"),
        ({"patience": "3"}, "patience '3': expected 1 or more"),
        ({"min_delta": -1.0}, "min_delta -1.0: expected >= 0"),
    ],
)
def test_early_stopping_wants_sense(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        EarlyStopping(**given)


def test_early_stopping_by_a_metric_that_nobody_measures(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="metric 'auc'; the evaluator reports loss"):
        latecomer.run(
            settings(), toy(), folder=tmp_path / "run", callbacks=[EarlyStopping("auc")]
        )


def test_what_a_callback_raises_says_where_the_run_is(tmp_path: Path) -> None:
    class Broken(Callback):
        def on_metrics(self, *_: Any) -> None:
            raise ZeroDivisionError("mine")

    folder = tmp_path / "run"
    with pytest.raises(ZeroDivisionError) as caught:
        latecomer.run(settings(), toy(), folder=folder, callbacks=[Broken()])
    assert caught.value.__notes__ == [f"the run up to here: Results({str(folder)!r})"]
    assert Results(folder).summary["versions"] == 0


def test_every_evaluation_is_told_as_it_comes(tmp_path: Path) -> None:
    (begin, *told, end), results = simulated(tmp_path / "run")
    assert begin == ("begin", "fed_buff", "run")
    assert end == "end"
    table = results.central
    columns = (table[name] for name in ("version", "seconds", "loss"))
    expected = [(v, s, {"loss": x}) for v, s, x in zip(*columns, strict=True)]
    assert told == expected
    assert len(told) == 5


def test_what_clients_measure_is_told_at_the_end_as_means(tmp_path: Path) -> None:
    (_, *told, _), results = simulated(
        tmp_path / "run",
        test_data=None,
        valid_data=lambda client: points(client.index + 9),
        settings={"evaluate": {"clients": True}},
    )
    table = results.federated
    assert [version for version, _, _ in told] == table["version"]
    assert [values["clients/loss"] for _, _, values in told] == table["loss"]


def test_a_value_that_is_no_number_is_not_told(tmp_path: Path) -> None:
    (_, *told, _), _ = simulated(
        tmp_path / "run", evaluate=lambda *_: {"a": float("nan"), "b": 1.0}
    )
    assert {frozenset(values) for _, _, values in told} == {frozenset("b")}


def test_a_run_that_raises_was_stopped(tmp_path: Path) -> None:
    ear = Ear()

    def heavy(*_: Any) -> Any:
        raise Interruption  # as the handler of Ctrl-C

    with pytest.raises(KeyboardInterrupt), Notifier([ear]) as notifier:
        latecomer.run(
            settings(), toy(evaluate=heavy), folder=tmp_path / "run", on_event=notifier
        )
    assert ear.heard[-1] == "stopped"


def test_a_run_that_never_began_is_not_told_of() -> None:
    ear = Ear()
    with Notifier([ear]):
        pass
    assert ear.heard == []


def test_settings_are_named_as_a_user_sets_them() -> None:
    found = dict(flat({"a": {"b": 1, "c": {"d": None}}, "e": {}, "f": [1]}))
    assert found == {"a.b": 1, "a.c.d": None, "e": {}, "f": [1]}


@pytest.mark.parametrize(
    ("name", "package"),
    [("tensorboard", "tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")],
)
def test_a_package_that_is_missing_is_named_before_anything_runs(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedrun.optional.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=rf"needs the package {package}: pip install"):
        CALLBACKS[name]()
    with desk(tmp_path, monkeypatch):
        write()
        done = typed("fedsim", "run", "fed.yaml", "--callback", name)
        sentence = done.sentence(os.EX_CONFIG)
        assert sentence.endswith(f"pip install 'latecomer[{name}]'")
        assert not Path("runs").exists()


# ---------------------------------------------------------------------- the real ones


@pytest.fixture
def desk_with_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    with desk(tmp_path, monkeypatch):
        write()
        yield monkeypatch


@pytest.mark.needs("tensorboard")
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_what_was_logged(
    desk_with_run: pytest.MonkeyPatch,
) -> None:
    reading = import_module("tensorboard.backend.event_processing.event_accumulator")
    done = typed("fedsim", "run", "fed.yaml", "--callback", "tensorboard", "-o", "run")
    assert done.status == 0
    events = reading.EventAccumulator("run/tensorboard")
    events.Reload()
    found = [
        (event.step, event.tensor_proto.float_val[0])
        for event in events.Tensors("loss")
    ]
    table = Results(Path("run")).central
    assert found == [
        (v, pytest.approx(x, rel=1e-6))
        for v, x in zip(table["version"], table["loss"], strict=True)
    ]
    at = [event.wall_time for event in events.Tensors("loss")]
    seconds = [time - at[0] for time in at]
    assert seconds == pytest.approx(table["seconds"], abs=1e-3)
    assert "total/bytes_up" in events.Tags()["tensors"]
    assert Path("run/tensorboard/config.json").is_file()


@pytest.mark.needs("tensorboard")
def test_tensorboard_writes_where_it_is_told_to(tmp_path: Path) -> None:
    notifier = Notifier([TensorBoard(tmp_path / "logs")])
    results = latecomer.run(
        settings(), toy(), folder=tmp_path / "run", on_event=notifier
    )
    notifier.end(results)
    assert list((tmp_path / "logs").glob("events.out.*"))
    assert not (tmp_path / "run" / "tensorboard").exists()


@pytest.mark.needs("mlflow")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_the_curve_and_the_settings(
    desk_with_run: pytest.MonkeyPatch,
) -> None:
    mlflow = import_module("mlflow")
    desk_with_run.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(Path("mlruns").resolve().as_uri())
    done = typed("fedsim", "run", "fed.yaml", "--callback", "mlflow", "-o", "run")
    assert done.status == 0
    client = mlflow.MlflowClient()
    (run,) = client.search_runs(["0"])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"
    assert run.data.params["algorithm.buffer"] == "2"
    history = client.get_metric_history(run.info.run_id, "loss")
    table = Results(Path("run")).central
    assert [(m.step, m.value) for m in history] == list(
        zip(table["version"], table["loss"], strict=True)
    )
    assert run.data.metrics["total/accepted"] == 12


@pytest.mark.needs("wandb")
@pytest.mark.filterwarnings("ignore")
def test_wandb_works_without_an_account(desk_with_run: pytest.MonkeyPatch) -> None:
    desk_with_run.setenv("WANDB_MODE", "offline")
    desk_with_run.setenv("WANDB_SILENT", "true")
    done = typed("fedsim", "run", "fed.yaml", "--callback", "wandb", "-o", "run")
    assert done.status == 0
    assert list(Path("run/wandb").glob("offline-run-*/run-*.wandb"))


def test_without_being_asked_no_such_package_is_imported() -> None:
    modules = "fedview.callbacks, fedview.export, fedsim.cli.run"
    heavy = {"tensorboard", "mlflow", "wandb", "pandas", "pyarrow"}
    assert imported_by(modules, heavy) == set()
