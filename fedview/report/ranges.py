"""Finds which values a metric can take, so that no axis shows others."""

import re
from collections.abc import Iterable

import numpy as np

from fedcore.coordinator.settings import lower_is_better
from fedview.report.downsample import Floats

# Shares of something: from 0 to 1, or to 100 if they are percentages.
_SHARES = {"acc", "accuracy", "precision", "recall", "sensitivity", "specificity"}
_SHARES |= {"f1", "auc", "auroc", "auprc", "ap", "map", "iou", "dice", "jaccard"}
_TOP_K = re.compile(r"top_?\d+")
_ROOM = 0.02  # of the axis, beyond a limit: a line at the limit is drawn whole
_AROUND = 0.06  # of the axis, around values that are far from a limit


def limits(metric: str, values: Floats) -> tuple[float, float]:
    """Returns the least and the greatest value of a metric; infinite if unknown.

    Args:
        metric: its name.
        values: that it took, any shape; those outside of the usual limits lift these.
    """
    known = values[np.isfinite(values)]
    least, most = (known.min(), known.max()) if known.size else (0.0, 0.0)
    name = metric.lower()
    words = set(re.split(r"[^a-z0-9]+", name))
    if (words & _SHARES or _TOP_K.match(name)) and least >= 0 and most <= 100:
        return 0.0, 1.0 if most <= 1 else 100.0
    if lower_is_better(metric) and least >= 0:
        return 0.0, np.inf
    return -np.inf, np.inf


def axis_range(metric: str, values: Floats, drawn: Iterable[Floats]) -> list[float]:
    """Returns the range of an axis that holds all curves, and no impossible value.

    Args:
        metric: its name.
        values: that it took, which say what its limits are.
        drawn: all that is to be seen: curves, bands, a target.
    """
    low, high = limits(metric, values)
    parts = [np.ravel(part) for part in drawn]
    seen = np.concatenate(parts) if parts else np.empty(0)
    seen = seen[np.isfinite(seen)]
    if not seen.size:
        return [0.0, 1.0]
    bottom, top = max(float(seen.min()), low), min(float(seen.max()), high)
    size = (top - bottom) or abs(top) or 1.0
    return [
        max(bottom - _AROUND * size, low - _ROOM * size),
        min(top + _AROUND * size, high + _ROOM * size),
    ]
