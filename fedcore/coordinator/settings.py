"""The settings of a coordinator besides its algorithm."""

import math
import re
from collections.abc import Mapping

from pydantic import Field

from fedcore.config import Config, Count, Device, Duration


class StopConfig(Config):
    """When the run ends: at the first of these. Without any, it runs until stopped."""

    versions: Count | None = None
    """Published versions."""
    updates: Count | None = None
    """Accepted updates."""
    seconds: Duration | None = None
    """Seconds since the run began."""
    target: Mapping[str, float] = Field(default_factory=dict)
    """Metrics that an evaluator must reach: at most this, for losses and errors;
    otherwise at least this."""


class EvaluateConfig(Config):
    """The evaluators of public models, and how often they evaluate."""

    every_versions: Count = 5
    """The distance in versions between two evaluations; version 0 and the last one are
    evaluated, too."""
    clients: bool = False
    """Whether clients evaluate the models that they receive, on data of their own."""
    evaluators: tuple[str, ...] = ()
    """Names of evaluators beside the server's own. Their metrics can reach the target,
    too."""
    device: Device | None = None
    """The device of the server's own evaluator: cpu, cuda, mps or auto; none: the one
    that the app names."""


class TimeoutsConfig(Config):
    """The waiting times of the server, in seconds."""

    hold: Duration = Field(default=20.0, le=60)
    """A pull is answered after this time, even if there is no task."""
    lease: Duration = 600.0
    """A client that trains longer than this makes room for another one. It may still
    deliver."""
    heartbeat: Duration = 2.0
    """The interval at which clients show that they are connected."""
    lost: Duration = 5.0
    """A client that is silent for this time counts as lost."""
    stall: Duration = 30.0
    """A transfer without progress for this time is ended; it can be resumed."""
    drain: Duration = 10.0
    """How long a server that stops lets open calls finish."""
    linger: float = Field(default=10.0, ge=0)
    """How long a server waits after the end for clients that do not know of it."""


_FALLING = ("loss", "error", "perplexity", "deviance", "divergence")
_SHORT = {
    "mse", "rmse", "mae", "mape", "nll", "bce", "ppl", "wer", "cer", "ece", "brier",
    "fpr", "fnr",
}  # fmt: skip


def lower_is_better(metric: str) -> bool:
    """Whether lower values of a metric of this name are better (docs/user_code.md)."""
    name = metric.lower()
    words = re.split("[^a-z]+", name)
    return any(part in name for part in _FALLING) or not _SHORT.isdisjoint(words)


def reaches(target: Mapping[str, float], values: Mapping[str, float]) -> bool:
    """Whether the metrics reach all targets; False if there is none."""
    return bool(target) and all(
        name in values
        and (values[name] <= goal if lower_is_better(name) else values[name] >= goal)
        for name, goal in target.items()
    )


def find_unreported(
    target: Mapping[str, float], values: Mapping[str, float]
) -> list[str]:
    """Returns a sentence for each target for which an evaluator reports no number."""
    others = f"but for {', '.join(values)}" if values else "and for nothing else"
    return [
        f"stop.target: the evaluator reports no number for {name}, {others}"
        for name in sorted(target)
        if name not in values or not math.isfinite(values[name])
    ]
