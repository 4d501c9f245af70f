"""Metrics of a set do not depend on its order, and equal those of scikit-learn."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from fedcore import evaluation, metrics
from fedcore.errors import WorkloadError
from fedcore.evaluation import measure
from fedcore.samples import join_rows


def batches(output: Any, target: Any, size: int = 1024) -> Iterator[tuple[Any, Any]]:
    """The rows in order, so many at a time."""
    for at in range(0, len(target), size):
        yield output[at : at + size], target[at : at + size]


def drawn(seed: int, classes: int, rows: int = 5000) -> tuple[Any, Any]:
    """Logits that say something, and classes that are unequally frequent."""
    rng = np.random.default_rng(seed)
    target = rng.choice(classes, rows, p=rng.dirichlet(np.ones(classes)))
    logits = rng.standard_normal((rows, classes)).astype(np.float32)
    logits[np.arange(rows), target] += 1
    return logits, target


def orders(output: Any, target: Any) -> Iterator[tuple[Any, Any]]:
    """As drawn, shuffled, and by class: then most batches hold one class alone."""
    shuffled = np.random.default_rng(0).permutation(len(target))
    for order in (slice(None), shuffled, np.argsort(target)):
        yield output[order], target[order]


def auc_and_more(output: Any, target: Any) -> dict[str, float]:
    """What is no mean over batches."""
    score = output[:, 1] - output[:, 0]
    said = output.argmax(1)
    return {
        "auc": sk.roc_auc_score(target, score),
        "f1": sk.f1_score(target, said),
        "recall": sk.recall_score(target, said),
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_function_sees_all_outputs_whatever_their_order(seed: int) -> None:
    logits, target = drawn(seed, 2)
    expected = auc_and_more(logits, target)
    for output, true in orders(logits, target):
        found = measure(auc_and_more, batches(output, true), join_rows)
        assert found == pytest.approx(expected, abs=1e-12)


def test_the_mean_over_batches_is_another_number() -> None:
    """What these tests would miss if they could not tell."""
    logits, target = drawn(0, 2)
    by_class = list(orders(logits, target))[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a batch of one class has no AUC
        parts = [auc_and_more(*part) for part in batches(*by_class)]
    mean = np.nanmean([part["f1"] for part in parts])
    assert abs(mean - auc_and_more(logits, target)["f1"]) > 0.05


STREAMED: dict[str, tuple[Any, Any]] = {
    "accuracy": (metrics.Accuracy(), sk.accuracy_score),
    **{
        f"{name} {average}": (
            getattr(metrics, name)(average),
            lambda y, said, f=f, average=average: f(
                y, said, average=average, zero_division=0
            ),
        )
        for name, f in (
            ("Precision", sk.precision_score),
            ("Recall", sk.recall_score),
            ("F1", sk.f1_score),
        )
        for average in ("macro", "micro", "weighted", "binary")
    },
}


@pytest.mark.parametrize(
    ("name", "classes"),
    [(name, 2) for name in STREAMED]
    + [(name, 7) for name in STREAMED if "binary" not in name],
)
def test_streamed_metrics_equal_those_of_scikit_learn(name: str, classes: int) -> None:
    ours, theirs = STREAMED[name]
    logits, target = drawn(classes, classes)
    expected = theirs(target, logits.argmax(1))
    for output, true in orders(logits, target):
        found = measure({"m": ours}, batches(output, true, 100), join_rows)
        assert found["m"] == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 2**32), st.integers(2, 300), st.sampled_from([1e-30, 1.0, 1e30]))
def test_the_area_is_exact_with_ties_too(seed: int, rows: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    target = np.arange(rows) % 2
    scores = (scale * (rng.standard_normal(rows) + target)).astype(np.float32)
    for coarse in (scores, np.sign(scores)):  # the second has nothing but ties
        found = measure({"auc": metrics.AUC()}, batches(coarse, target, 7), join_rows)
        expected = sk.roc_auc_score(target, coarse)
        assert found["auc"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_area_under_probabilities_that_are_nearly_one_is_exact(dtype: Any) -> None:
    """They differ in their last bits alone, as those of a model that is sure."""
    logits, target = drawn(3, 2, 100_000)
    score = (1 / (1 + np.exp(logits[:, 0] - logits[:, 1] - 8.0))).astype(dtype)
    found = measure({"auc": metrics.AUC()}, batches(score, target), join_rows)
    assert found["auc"] == pytest.approx(sk.roc_auc_score(target, score), abs=1e-12)


def test_the_area_is_near_where_scores_are_too_many_to_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedcore.metrics.auc.MOST_SCORES", 2000)
    monkeypatch.setattr(evaluation, "PIECE", 0)
    logits, target = drawn(3, 2, 50_000)
    for score in (logits[:, 1] - logits[:, 0], 1 / (1 + np.exp(-logits[:, 1] - 8.0))):
        metric = metrics.AUC()
        found = measure({"auc": metric}, batches(score, target), join_rows)
        assert found["auc"] == pytest.approx(sk.roc_auc_score(target, score), abs=1e-3)
        for part in batches(score, target):
            metric.update(*part)
            assert len(metric._keys) <= 2000


@pytest.mark.parametrize("output", [np.full(4, np.nan), np.full((4, 2), np.nan)])
def test_a_metric_of_a_model_that_diverged_is_nan(output: Any) -> None:
    """The class of the first column is no answer, and an error would end the run."""
    target = np.array([0, 1, 0, 1])
    for metric in (metrics.AUC(), metrics.Accuracy(), metrics.F1()):
        assert np.isnan(measure({"m": metric}, [(output, target)], join_rows)["m"])
        assert metric.compute() != 0  # and the next evaluation begins anew
        found = measure({"m": metric}, [(target - 0.5, target)], join_rows)
        assert found["m"] == 1.0


@pytest.mark.parametrize("metric", [metrics.AUC, metrics.Accuracy, metrics.F1])
@pytest.mark.parametrize(
    ("output", "target"),
    [
        (np.zeros(3), np.array([0, np.nan, 1])),
        (np.zeros(3), np.array(["cat", "dog", "cat"])),
        ({"scores": np.zeros(3)}, np.array([0, 1, 1])),
        (np.zeros((3, 0)), np.array([0, 1, 1])),
        (np.zeros((3, 2)), np.eye(2)[[0, 1, 1]]),
        ([[1.0], [1.0, 2.0]], np.array([0, 1])),
        (0.5, np.array([0, 1])),
    ],
)
def test_what_are_no_scores_and_classes_is_refused_by_a_sentence(
    metric: Any, output: Any, target: Any
) -> None:
    with pytest.raises(WorkloadError):
        metric().update(output, target)


def test_what_no_class_or_sample_tells_is_nan() -> None:
    for metric in (metrics.AUC(), metrics.Accuracy(), metrics.F1()):
        assert np.isnan(metric.compute())
    assert np.isnan(metrics.Mean(lambda output, target: 1.0).compute())
    one_class = np.zeros(5, int)
    found = measure({"a": metrics.AUC()}, [(np.arange(5.0), one_class)], join_rows)
    assert np.isnan(found["a"])


def test_a_metric_begins_anew_with_each_evaluation() -> None:
    logits, target = drawn(0, 3)
    accuracy = metrics.Accuracy()
    for part in (slice(0, 100), slice(100, 5000)):
        found = measure({"a": accuracy}, batches(logits[part], target[part]), join_rows)
        expected = sk.accuracy_score(target[part], logits[part].argmax(1))
        assert found["a"] == pytest.approx(expected, abs=1e-12)


def test_a_mean_weighs_batches_by_their_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation, "PIECE", 0)  # each batch by itself
    sizes: list[int] = []

    def mean(output: Any, target: Any) -> float:
        sizes.append(len(target))
        return float(output.mean())

    values = np.arange(10.0)
    for target in (values, (values, values), {"a": values}):
        parts = [(values[:8], _rows(target, 0, 8)), (values[8:], _rows(target, 8, 10))]
        assert measure({"m": metrics.Mean(mean)}, parts, join_rows) == {"m": 4.5}


def _rows(tree: Any, first: int, last: int) -> Any:
    if isinstance(tree, dict):
        return {name: _rows(part, first, last) for name, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_rows(part, first, last) for part in tree)
    return tree[first:last]


def test_trees_of_outputs_are_joined() -> None:
    logits, target = drawn(0, 2)

    def shapes(output: Any, target: Any) -> dict[str, float]:
        return {"a": len(output["a"]), "b": len(output["b"][0]), "y": len(target)}

    parts = [({"a": o, "b": (o,)}, y) for o, y in batches(logits, target)]
    assert measure(shapes, parts, join_rows) == {"a": 5000, "b": 5000, "y": 5000}


def test_what_cannot_be_joined_is_said_or_streamed() -> None:
    parts = [(np.zeros((3, 4)), np.zeros(3)), (np.zeros((3, 5)), np.zeros(3))]
    with pytest.raises(WorkloadError, match=r"cannot be joined: .* use metrics"):
        measure(lambda output, target: {}, parts, join_rows)
    streamed = metrics.Mean(lambda output, target: output.shape[1])
    assert measure({"width": streamed}, parts, join_rows) == {"width": 4.5}


@pytest.mark.parametrize(
    ("metric", "wrong"),
    [
        (lambda output, target: 0.5, "returned float; expected numbers by name"),
        (lambda o, t: {"f1": np.zeros(3)}, r"'f1' is an array of shape \(3,\)"),
        ({"f1": lambda o, t: "high"}, "the metric 'f1' is str; expected one number"),
        ({"auc": sk.roc_auc_score}, "scikit-learn take the targets first; write lam"),
        ({"f1": 0.5}, "'f1': ...}} is float; expected a function"),
        ({"f1": metrics.F1()}, "found 0 to 9999"),
        ({"f1": metrics.F1}, r"'f1': ...}} is a class; write F1\("),
        ({"auc": metrics.AUC()}, "AUC takes a score for each sample and targets 0 and"),
    ],
)
def test_what_is_no_metric_is_refused(metric: Any, wrong: str) -> None:
    data = np.zeros((10_000, 3)), np.arange(10_000)
    with pytest.raises(WorkloadError, match=wrong.replace("}}", "}")):
        measure(metric, batches(*data), join_rows)


def test_an_average_that_is_none_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no average 'mean'; there are macro"):
        metrics.F1("mean")  # type: ignore[arg-type]


def test_a_compiled_function_that_names_no_module_is_a_function() -> None:
    class Compiled:
        """As many functions of torch are."""

        __module__ = None  # type: ignore[assignment]

        def __call__(self, output: Any, target: Any) -> float:
            return float(len(target))

    found = measure({"rows": Compiled()}, batches(*drawn(0, 2)), join_rows)
    assert found == {"rows": 5000.0}
