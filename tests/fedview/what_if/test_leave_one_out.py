"""Clients ranked by the model without each of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.coordinator.events import ClientEnrolled
from fedcore.errors import ConfigError
from fedrun.evaluation import Evaluation
from fedview.what_if import rank
from tests.fedrun.journal.runs import Written
from tests.fedview.what_if.federation import CLIENTS, HARMFUL, simulated, workload


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run so short that the others had little to answer."""
    return simulated(tmp_path_factory.mktemp("run") / "run", stop={"versions": 3})


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    assert any(line.startswith(f"{HARMFUL} hurt most") for line in found.sentences)


def test_what_the_others_would_have_answered_forbids_a_ranking(
    long: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    found = latecomer.leave_one_out(long, workload(), page=page)
    assert not found.is_ranked
    assert min(left.feedback for left in found.clients) > 0.5
    assert found.table["client"] == [f"client-{n}" for n in range(CLIENTS)]
    assert not {"effect", "loss", "accuracy"} & set(found.table)
    (told,) = [line for line in found.sentences if "no ranking" in line]
    assert "fedsim influence --leave-one-out" in told
    assert not any("helped" in line or "hurt" in line for line in found.sentences)
    assert "effect on loss" not in page.read_text()


def test_who_hurt_beyond_doubt_is_told_where_the_order_of_the_others_is_not(
    tmp_path: Path,
) -> None:
    algorithm = {"kind": "fed_avg", "buffer": CLIENTS}
    run = simulated(tmp_path / "run", algorithm=algorithm, stop={"versions": 2})
    found = latecomer.leave_one_out(run, workload())
    assert not found.is_ranked  # four clients are alike
    assert "effect" not in found.table
    assert f"the model is better without {HARMFUL}" in found.sentences
    assert not any("most" in line for line in found.sentences)


def test_one_update_of_each_client_does_not_tell_how_others_would_have_answered(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path)  # each update makes a version
    for name in ("ann", "bob", "eve"):
        written.push(name)
    written.close()
    found = rank(written.folder)
    assert not found.is_ranked
    assert "any share of the difference" in found.trust.why_not
    assert found.table["feedback"] == [None, None, 0.0]  # nobody came after eve


def test_without_answers_of_others_nothing_is_in_doubt(tmp_path: Path) -> None:
    algorithm = {"kind": "fed_avg", "buffer": CLIENTS}
    run = simulated(tmp_path / "run", algorithm=algorithm, stop={"versions": 1})
    found = latecomer.leave_one_out(run, workload())
    assert found.trust.feedback == 0
    assert found.trust.correlation == pytest.approx(1)
    assert set(found.table["doubt"]) == {0}
    assert "no update of another client would have been different" in found.sentences


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [
        ({"server": {"kind": "momentum"}}, "algorithm.server is momentum, not sgd"),
        ({"aggregator": {"kind": "coordinate_median"}}, "no weighted mean"),
        (
            {"client": {"kind": "scaffold"}, "staleness": {"kind": "constant"}},
            "more than the updates of a model",
        ),
    ],
)
def test_a_recipe_whose_answers_nobody_can_bound_is_not_ranked(
    algorithm: dict[str, Any], why: str, tmp_path: Path
) -> None:
    run = simulated(tmp_path / "run", algorithm=algorithm, stop={"versions": 2})
    found = latecomer.leave_one_out(run, workload())
    assert why in found.trust.why_not
    assert not found.is_ranked


def test_each_row_is_the_replay_without_that_client(run: Path) -> None:
    found = latecomer.leave_one_out(run, workload())
    alone = latecomer.replay(run, without=HARMFUL, app=workload())
    last = found.clients[-1]
    assert last.distance == alone.distance
    assert last.feedback == alone.feedback
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
    losses = iter([9.0, 1.0, 0.1, 2.0, math.nan, 0.7, 2.6])

    def evaluate(paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(1, {"loss": next(losses)}) for _ in paths]

    ranked = rank(run, evaluate=evaluate).clients
    assert math.isnan(ranked[0].metrics["loss"])
    assert [left.metrics["loss"] for left in ranked[1:]] == [2.6, 2.0, 0.7, 0.1]


def test_clients_that_do_no_harm_and_those_without_updates_are_named(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path, algorithm={"buffer": 2})
    for name in ("ann", "bob"):
        written.push(name)
    written.group.feed(ClientEnrolled(at=1.0, cid="eve", name="eve"))
    written.group.commit()
    written.close()
    losses = iter([9.0, 1.0, 1.5, 2.0, 1.0])

    def evaluate(paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(1, {"loss": next(losses)}) for _ in paths]

    assert rank(written.folder, evaluate=evaluate).sentences[1:] == [
        "no update of another client would have been different",
        "eve has no update in the model",
        "loss of the model of all clients: 1.0000",
        "bob helped most: the loss without it is 2.0000",
        "no client hurt beyond doubt",
    ]
