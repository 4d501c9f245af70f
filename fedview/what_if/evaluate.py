"""Evaluates the recorded model and that of the replay."""

from pathlib import Path
from tempfile import TemporaryDirectory

from fedview.what_if.counterfactual import Counterfactual
from fedview.what_if.leave_one_out import EvaluateFiles


def evaluate_both(found: Counterfactual, evaluate: EvaluateFiles) -> Counterfactual:
    """Returns a comparison with the metrics of both models."""
    with TemporaryDirectory() as scratch:
        paths = [Path(scratch) / f"{name}.safetensors" for name in ("was", "then")]
        for path, outcome in zip(paths, (found.recorded, found.replayed), strict=True):
            outcome.save(path)
        return found.with_evaluations(list(evaluate(paths)))
