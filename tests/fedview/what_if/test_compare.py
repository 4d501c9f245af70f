"""The model of a run beside what it would have been."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Stepped
from fedcore.errors import (
    ConfigError,
    CorruptJournalError,
    JournalError,
    WorkloadError,
)
from fedrun.files import load_model
from fedrun.journal.sqlite import SqliteStore
from fedrun.run import open_run
from fedview.results import Results
from fedview.what_if import compare, rank
from tests.fedrun.journal.runs import Written, change
from tests.fedview.what_if.federation import HARMFUL, simulated, workload
from tests.served import settings


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("run") / "run")


def test_a_replay_without_a_change_gives_the_same_model(run: Path) -> None:
    found = latecomer.replay(run)
    assert found.distance == 0
    assert found.first is None
    assert "the models are the same, bit for bit" in found.sentences
    assert found.decisions.weights == 0
    recorded = Results(run).model()
    for name, values in found.replayed.model.items():
        np.testing.assert_array_equal(values, recorded[name])


def test_without_a_client_its_updates_are_gone_and_the_others_remain(
    run: Path,
) -> None:
    found = latecomer.replay(run, without=HARMFUL, app=workload())
    clients = dict(
        zip(
            found.clients["client"],
            zip(
                found.clients["updates"], found.clients["replayed_updates"], strict=True
            ),
            strict=True,
        )
    )
    before, after = clients.pop(HARMFUL)
    assert before > 0
    assert after == 0
    assert all(was == then for was, then in clients.values())
    assert found.decisions.left_out == before
    assert found.replayed.updates == found.recorded.updates - before
    shares = found.clients["replayed_share"]
    assert sum(shares) == pytest.approx(1)
    assert shares[found.clients["client"].index(HARMFUL)] == 0


def test_the_curve_of_distances_begins_with_the_first_version_that_differs(
    run: Path,
) -> None:
    found = compare(run, without=[HARMFUL])
    table = found.versions
    distance = dict(zip(table["version"], table["distance"], strict=True))
    assert found.first is not None
    assert all(distance[v] == 0 for v in distance if v < found.first)
    assert distance[found.first] > 0
    assert len(distance) == 12
    squares = sum(each**2 for each in found.layers["distance"])
    assert np.sqrt(squares) == pytest.approx(found.distance)


def test_both_models_are_measured_with_the_recall_of_each_class(run: Path) -> None:
    found = latecomer.replay(run, without=[HARMFUL], app=workload())
    rows = dict(
        zip(
            found.evaluations["metric"],
            zip(
                found.evaluations["recorded"],
                found.evaluations["replayed"],
                strict=True,
            ),
            strict=True,
        )
    )
    assert set(rows) == {"loss", "accuracy", "recall_0", "recall_1", "recall_2"}
    assert found.samples == 200
    assert rows["loss"][1] < rows["loss"][0]  # the labels of this client are wrong


def test_a_workload_without_outputs_is_measured_without_recall(run: Path) -> None:
    changes: dict[str, Any] = {
        "predict": None,
        "metrics": None,
        "evaluate": lambda params, x, y: {"norm": float(np.linalg.norm(params["w"]))},
    }
    found = latecomer.replay(run, without=[HARMFUL], app=workload(**changes))
    assert found.evaluations["metric"] == ["norm"]


def test_the_model_and_the_page_are_written(run: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "model.safetensors", tmp_path / "sub" / "page.html"
    found = latecomer.replay(run, without=HARMFUL, app=workload(), out=out, page=page)
    _, flat_D = load_model(out)
    np.testing.assert_array_equal(flat_D, found.replayed.flat_D)
    html = page.read_text()
    assert "recall_2" in html
    assert f"without {HARMFUL}" in html
    assert "NaN" not in html.partition("<script>")[0]


def test_other_settings_change_weights_and_are_counted(run: Path) -> None:
    changes = {"algorithm.staleness": {"kind": "polynomial", "exponent": 2.0}}
    found = latecomer.replay(run, changes=changes)
    assert found.decisions.weights > 0
    assert any("with another weight λ" in line for line in found.sentences)


def test_a_client_that_delivered_nothing_changes_nothing_and_it_is_said(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path)
    written.push("ann")
    written.push("bob", float("nan"))
    written.close()
    found = compare(written.folder, without=["bob"])
    assert found.distance == 0
    assert "bob has no update in the model: none was accepted" in found.sentences


def test_without_all_updates_there_is_no_model(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.push("ann")
    written.close()
    with pytest.raises(ConfigError, match="--without ann: no update is left"):
        compare(written.folder, without=["ann"])


def test_an_evaluator_cannot_be_left_out(run: Path) -> None:
    evaluators = Results(run).evaluators
    names = Results(run).names
    (name,) = {names[cid] for cid in evaluators}
    with pytest.raises(ConfigError, match="an evaluator sends no updates; the clients"):
        compare(run, without=[name])


def test_a_setting_with_a_typo_is_answered_with_what_exists(run: Path) -> None:
    with pytest.raises(ConfigError, match="bufer"):
        compare(run, ["algorithm.bufer=2"])


def test_dropped_payloads_cannot_be_replayed(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.push("bob")
    written.push("ann")
    written.run.journal.store.drop_payloads(written.run.journal.store.last)
    written.close()
    with pytest.raises(JournalError, match="were dropped"):
        compare(written.folder, without=["ann"])


def test_a_stacked_simulation_kept_no_updates(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.push("ann")
    written.run.journal.store.note("without updates", "yes")
    written.close()
    with pytest.raises(JournalError, match=r"simulate\.engine\.kind=exact"):
        compare(written.folder, without=["ann"])


def test_a_run_that_ended_with_another_version_is_told(tmp_path: Path) -> None:
    written = Written(tmp_path)
    for _ in range(2):
        written.push("ann")
    written.close()
    wrong = "0" * 32
    with closing(SqliteStore(written.folder)) as store:
        *before, last = [entry.record for entry in store.entries()]
        assert isinstance(last, Stepped)
        store.cut(1, [*before, replace(last, digest=wrong)])
    with pytest.raises(CorruptJournalError) as caught:
        compare(written.folder)
    assert f"version 2 should have digest {wrong}, the replay has" in str(caught.value)
    assert "fedserver journal verify names the first" in str(caught.value)


def test_an_app_without_test_data_is_told(run: Path) -> None:
    with pytest.raises(WorkloadError, match="has no test_data= to evaluate on"):
        latecomer.replay(run, app=workload(test_data=None))


def test_a_version_that_was_tampered_with_is_noticed(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.push("ann")
    written.close()
    change(written.folder, "UPDATE records SET body = '{' WHERE number = 3")
    with pytest.raises(JournalError, match="record 3"):
        compare(written.folder, without=[])


def test_an_amended_run_is_replayed_with_the_settings_that_it_had(
    tmp_path: Path,
) -> None:
    first = Written(tmp_path)  # every update makes a version
    for value in (1.0, 2.0, 3.0):
        first.push("ann", value)
    first.push("bob", 9.0)
    first.close()
    amended = settings(tmp_path, algorithm={"buffer": 2})
    open_run(amended, 2.0, amend=True).journal.close()
    then = Written(tmp_path, algorithm={"buffer": 2})
    for value in (4.0, 5.0):
        then.push("ann", value)
    then.close()
    found = compare(then.folder)
    assert found.recorded.version == found.replayed.version == 5
    assert found.distance == 0
    without = compare(then.folder, without=["bob"])
    assert without.replayed.version == 4
    left = {each.client: each.distance for each in rank(then.folder).clients}
    assert left["bob"] == without.distance
    assert compare(then.folder, ["algorithm.buffer=2"]).replayed.version == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"run": 3}, "run: expected the folder of a run, got 3"),
        ({"without": [3]}, "without: expected names of clients, got 3"),
        ({"without": 3}, "without: expected names of clients, got 3"),
        ({"changes": ["algorithm.buffer"]}, "changes: expected values by field"),
        ({"app": 3}, "app: expected a workload or a text such as"),
        ({"out": 3}, "out: expected a path, got 3"),
        ({"page": 3}, "page: expected a path, got 3"),
    ],
)
def test_an_argument_of_a_wrong_type_gets_one_sentence(
    run: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        latecomer.replay(**{"run": run, **arguments})
    if not {"without", "out"} & set(arguments):
        with pytest.raises(ConfigError, match=words):
            latecomer.leave_one_out(**{"run": run, **arguments})


def test_a_metric_is_named_by_a_text(run: Path) -> None:
    with pytest.raises(ConfigError, match="metric: expected the name of a metric"):
        latecomer.leave_one_out(run, metric=3)  # type: ignore[arg-type]
