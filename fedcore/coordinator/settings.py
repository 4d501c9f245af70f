"""What a coordinator is told besides its algorithm."""

from collections.abc import Mapping

from pydantic import Field

from fedcore.config import Config, Count, Device, Duration
from fedcore.typing import Seconds


class StopConfig(Config):
    """When the run ends, whichever comes first; without any, when it is stopped."""

    versions: Count | None = None
    """Published versions."""
    updates: Count | None = None
    """Accepted updates."""
    seconds: Duration | None = None
    """Seconds since the run began."""
    target: Mapping[str, float] = Field(default_factory=dict)
    """What the evaluator must measure: at least, of losses and errors at most."""

    def end(self, started: Seconds | None) -> Seconds | None:
        """When the seconds are over, if they are limited and have begun."""
        if self.seconds is None or started is None:
            return None
        return started + self.seconds

    def reason(
        self, versions: int, updates: int, started: Seconds | None, now: Seconds
    ) -> str | None:
        """Why the run ends here, or None if it goes on."""
        if self.versions is not None and versions >= self.versions:
            return f"{self.versions} versions"
        if self.updates is not None and updates >= self.updates:
            return f"{self.updates} updates"
        end = self.end(started)
        if end is not None and now >= end:
            return f"{self.seconds:g} seconds"
        return None


class EvaluateConfig(Config):
    """Who evaluates public models, and how often."""

    every_versions: Count = 5
    """An evaluator is given every so many versions, version 0 and the last one."""
    clients: bool = False
    """Clients also evaluate what they receive, on data of their own."""
    evaluators: tuple[str, ...] = ()
    """Names of evaluators beside the server's own; those of their metrics end a run."""
    device: Device | None = None
    """Where the server's own evaluator computes: cpu, cuda, mps or auto; none: as the
    app says."""


class TimeoutsConfig(Config):
    """Seconds of patience."""

    hold: Duration = Field(default=20.0, le=60)
    """A pull is answered after this time even if there is no task."""
    lease: Duration = 600.0
    """A client that trains longer makes room for another one; it may still deliver."""
    heartbeat: Duration = 2.0
    """Clients show at this interval that they are there."""
    lost: Duration = 5.0
    """A client that is silent for so long is taken for lost."""
    stall: Duration = 30.0
    """A transfer that makes no progress for so long is ended, and can be taken up."""
    drain: Duration = 10.0
    """A server that is told to stop lets open calls finish for so long."""
    linger: float = Field(default=10.0, ge=0)
    """After the end, clients that were not told of it yet are waited for so long."""


def lower_is_better(metric: str) -> bool:
    """Whether a metric of this name should fall."""
    return any(word in metric.lower() for word in ("loss", "error", "perplexity"))


def reached(target: Mapping[str, float], values: Mapping[str, float]) -> bool:
    """Whether all targets are met."""
    return bool(target) and all(
        name in values
        and (values[name] <= goal if lower_is_better(name) else values[name] >= goal)
        for name, goal in target.items()
    )
