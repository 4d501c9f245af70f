"""Evaluates model files on an app's test data."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.evaluation import name_metrics
from fedcore.metrics import RecallByClass
from fedcore.training import evaluate_central
from fedcore.typing import JSON
from fedcore.user_code import user_code
from fedcore.workload import TestData, Workload
from fedrun.files import load_model_for, load_version

RECALL = "recall by class"  # the name under which the metric is added to the user's


class Evaluation(NamedTuple):
    """The metrics of one model."""

    samples: int
    """How many samples the test data have."""
    metrics: dict[str, float]

    def to_json(self) -> JSON:
        """Returns it as plain data."""
        return {"samples": self.samples, "metrics": self.metrics}

    @classmethod
    def from_json(cls, saved: JSON) -> Self:
        """Returns what :meth:`to_json` saved; null, which strict JSON has, is NaN."""
        metrics = {
            name: math.nan if value is None else float(value)
            for name, value in saved["metrics"].items()
        }
        return cls(int(saved["samples"]), metrics)


def evaluate_files(
    workload: Workload, paths: Sequence[Path], app: str = "the workload"
) -> Iterator[Evaluation]:
    """Yields the metrics of each model file.

    The recall of each class joins the metrics where the targets are labels and the
    workload has ``metrics=`` of outputs and targets.

    Args:
        workload: has the model, its metrics and the test data.
        paths: safetensors files of its model.
        app: the workload's name, for messages.

    Raises:
        WorkloadError: the workload has no test data.
        ModelError: a file holds another model, or none.
        UserCodeError: the user's code raised.
    """
    test_data = require_test_data(workload, app)
    with user_code("test_data"):
        data = test_data()
    model = _with_recall(workload).flat()
    for path in paths:
        flat_D = load_model_for(model.spec, path, model.rest()).flat_D
        with user_code("evaluation"):
            values, samples = evaluate_central(
                model, flat_D, load_version(path), data, told=False
            )
        yield Evaluation(samples, dict(values))


def require_test_data(workload: Workload, app: str) -> TestData:
    """Returns what the test data are made by.

    Args:
        workload: may have none.
        app: the workload's name, for the message.

    Raises:
        WorkloadError: it has none.
    """
    if workload.test_data is None:
        raise WorkloadError(f"app {app!r} {workload.untested}")
    return workload.test_data


def _with_recall(workload: Workload) -> Workload:
    """Returns the workload with the recall of each class among its metrics."""
    known = {each.name for each in fields(workload)}
    metrics = getattr(workload, "metrics", None)
    if "metrics" not in known or (metrics is None and "loss" not in known):
        return workload  # it gives no outputs
    more: dict[str, Any] = {
        "metrics": {**name_metrics(metrics), RECALL: _RecallOfLabels()}
    }
    return replace(workload, **more)


class _RecallOfLabels(RecallByClass):
    """The recall of each class; no number at all where the targets are no labels."""

    def reset(self) -> None:
        super().reset()
        self._are_labels = True

    def update(self, output: Any, target: Any) -> None:
        if not self._are_labels:
            return
        try:
            super().update(output, target)
        except WorkloadError:
            self._are_labels = False
        else:
            scores = np.ndim(output) > 1 and np.shape(output)[-1]
            self._are_labels = len(self.counts) <= max(2, int(scores))

    def compute(self) -> dict[str, float]:
        return super().compute() if self._are_labels else {}


def main_metric(values: Iterable[str]) -> str | None:
    """Returns the metric by which models are compared: accuracy if there is one."""
    names = list(values)
    return "accuracy" if "accuracy" in names else names[0] if names else None
