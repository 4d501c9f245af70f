"""A module is evaluated on a whole set: its order and its batches change nothing."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import nn

from fedcore import metrics
from fedcore.errors import WorkloadError
from fedcore.rng import Key
from fedtorch import TorchWorkload

ROWS = 3000


def workload(measure: Any, loss: Any = None) -> TorchWorkload:
    """A linear model of two classes."""
    return TorchWorkload(
        model=lambda: nn.Linear(5, 2),
        loss=loss or nn.CrossEntropyLoss(),
        metrics=measure,
        train_data=lambda client: data(),
    )


def data(order: Any = slice(None)) -> tuple[Any, Any]:
    """Few of class 1, and a hint of which."""
    rng = np.random.default_rng(0)
    y = (rng.random(ROWS) < 0.1).astype(np.int64)
    x = (rng.standard_normal((ROWS, 5)) + 0.3 * y[:, None]).astype(np.float32)
    return x[order], y[order]


def auc(output: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    """Of the scores of all samples."""
    score = output.softmax(1)[:, 1]
    return {
        "auc": sk.roc_auc_score(target, score),
        "recall": sk.recall_score(target, output.argmax(1)),
    }


def orders() -> list[Any]:
    """As drawn, shuffled, and by class."""
    shuffled = np.random.default_rng(1).permutation(ROWS)
    return [np.arange(ROWS), shuffled, np.argsort(data()[1])]


def test_metrics_and_weighted_losses_do_not_depend_on_the_order() -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 3.0]))
    model = workload(auc, loss).flat()
    w_D = model.initial(Key.root(1))
    x, y = map(torch.from_numpy, data())
    w = model.spec.unflatten(w_D)
    output = x @ torch.tensor(w["weight"]).T + torch.tensor(w["bias"])
    expected = {"loss": loss(output, y).item(), **auc(output, y)}
    for order in orders():
        found, rows = model.evaluate(w_D, data(order))
        assert rows == ROWS
        assert found == pytest.approx(expected, abs=1e-6)


def test_metrics_of_torchmetrics_are_taken_as_they_are() -> None:
    classification = pytest.importorskip("torchmetrics.classification")
    collection = pytest.importorskip("torchmetrics").MetricCollection(
        {"f1": classification.MulticlassF1Score(2, average="macro")}
    )
    theirs = {
        "accuracy": classification.MulticlassAccuracy(2, average="micro"),
        "": collection,
        "auc of ours": metrics.AUC(),
    }
    model = workload(theirs).flat()
    w_D = model.initial(Key.root(1))

    def whole(output: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
        said = output.argmax(1)
        return {
            "accuracy": sk.accuracy_score(target, said),
            "f1": sk.f1_score(target, said, average="macro"),
            "auc of ours": sk.roc_auc_score(target, output[:, 1] - output[:, 0]),
        }

    expected, _ = workload(whole).flat().evaluate(w_D, data())
    for order in orders():
        found, _ = model.evaluate(w_D, data(order))
        assert found == pytest.approx(expected, abs=1e-3)  # ours is a histogram


def test_the_loss_is_there_without_metrics_and_can_be_named_otherwise() -> None:
    w_D = workload(None).flat().initial(Key.root(1))
    found, _ = workload(None).flat().evaluate(w_D, data())
    assert list(found) == ["loss"]
    named, _ = workload({"accuracy": metrics.Accuracy()}).flat().evaluate(w_D, data())
    assert named == {"accuracy": named["accuracy"], **found}


def test_a_metric_for_each_class_is_refused_by_its_name() -> None:
    model = workload(lambda output, target: {"recall": torch.ones(2)}).flat()
    with pytest.raises(WorkloadError, match=r"'recall' is an array of shape \(2,\)"):
        model.evaluate(np.zeros(12, np.float32), data())


def test_metrics_take_what_autocast_gives() -> None:
    """NumPy has no bfloat16."""
    output, target = torch.randn(9, 2).bfloat16(), torch.arange(9) % 2
    score = (output[:, 1].double() - output[:, 0].double()).numpy()
    for metric in (metrics.AUC(), metrics.Accuracy()):
        metric.update(output, target)
        found = metric.compute()
        expected = (
            sk.roc_auc_score(target, score)
            if isinstance(metric, metrics.AUC)
            else sk.accuracy_score(target, output.float().argmax(1))
        )
        assert found == pytest.approx(expected, abs=1e-12)
