"""Clients ranked by the model without each of them."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

import latecomer
from fedcore.coordinator.events import ClientEnrolled
from fedcore.errors import ConfigError
from fedrun.evaluation import Evaluation
from fedrun.what_if import rank
from tests.fedrun.journal.runs import Written
from tests.fedrun.what_if.federation import CLIENTS, HARMFUL, simulated, workload


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("run") / "run", stop={"versions": 20})


@pytest.mark.parametrize("metric", [None, "accuracy"])
def test_a_client_with_wrong_labels_comes_out_last(
    run: Path, metric: str | None
) -> None:
    found = latecomer.leave_one_out(run, workload(), metric=metric)
    assert len(found.clients) == CLIENTS
    assert found.table["client"][-1] == HARMFUL
    assert found.table["effect"][-1] < 0
    assert found.table["effect"] == sorted(found.table["effect"], reverse=True)
    assert found.sentences[-1].endswith(HARMFUL)


def test_each_row_is_the_replay_without_that_client(run: Path) -> None:
    found = latecomer.leave_one_out(run, workload())
    alone = latecomer.replay(run, without=HARMFUL, app=workload())
    last = found.clients[-1]
    assert last.distance == alone.distance
    replayed = dict(
        zip(alone.evaluations["metric"], alone.evaluations["replayed"], strict=True)
    )
    assert last.metrics == replayed
    assert last.share == pytest.approx(alone.recorded.share(HARMFUL))


def test_without_an_app_the_distance_ranks(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = latecomer.leave_one_out(run, page=page)
    assert found.metric == ""
    assert found.table["relative"] == sorted(found.table["relative"], reverse=True)
    assert HARMFUL in page.read_text()


def test_a_metric_that_does_not_exist_is_told(run: Path) -> None:
    with pytest.raises(
        ConfigError, match="--metric f1: unknown; there are accuracy, rec"
    ):
        latecomer.leave_one_out(run, workload(), metric="f1")
    with pytest.raises(ConfigError, match="needs an app with test data"):
        latecomer.leave_one_out(run, metric="loss")


def test_one_client_alone_cannot_be_left_out(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.push("ann")
    written.close()
    with pytest.raises(ConfigError, match="has 1 client; leaving one out needs two"):
        latecomer.leave_one_out(written.folder)


def test_a_wrong_metric_is_told_before_any_client_is_left_out(run: Path) -> None:
    measured: list[int] = []

    def evaluate(paths: Sequence[Path]) -> list[Evaluation]:
        measured.append(len(paths))
        return [Evaluation(1, {"loss": 1.0}) for _ in paths]

    with pytest.raises(ConfigError, match="--metric lss: unknown"):
        rank(run, evaluate=evaluate, metric="lss")
    assert measured == [1]


def test_a_client_without_which_the_loss_is_no_number_comes_first(run: Path) -> None:
    losses = iter([1.0, 0.5, 2.0, math.nan, 0.7, 3.0])

    def evaluate(paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(1, {"loss": next(losses)}) for _ in paths]

    ranked = rank(run, evaluate=evaluate).clients
    assert math.isnan(ranked[0].metrics["loss"])
    assert [left.metrics["loss"] for left in ranked[1:]] == [3.0, 2.0, 0.7, 0.5]


def test_clients_that_do_no_harm_and_those_without_updates_are_named(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path)
    for name in ("ann", "bob"):
        written.push(name)
    written.group.feed(ClientEnrolled(at=1.0, cid="eve", name="eve"))
    written.group.commit()
    written.close()
    losses = iter([1.0, 1.5, 2.0, 1.0])

    def evaluate(paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(1, {"loss": next(losses)}) for _ in paths]

    assert rank(written.folder, evaluate=evaluate).sentences == [
        "loss of the model of all clients: 1.0000",
        "eve has no update in the model",
        "bob helped most: the loss without it is 2.0000",
        "ann helped least: the loss without it is 1.5000; no client hurt",
    ]
