"""Gaia's control of bandwidth: a higher threshold while too much is sent.

Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI
2017. The rule is that of the authors' later code (github.com/kevinhsieh/non_iid_dml,
``tablet-server.cpp``, ``enable_threshold_by_bw``), as the paper's own was not within
reach: after each message, the threshold T of the significance filter rises by 0.005 if
the site has used more than 1.1 times its limit since the message before, and falls by
as much if it has used less than 0.9 times the limit. It stays between T and ``most``.

What is used are the bytes in both directions over the time that has passed. A client
counts the gRPC messages around its payloads as well, the simulator does not.
"""

from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from fedcore.config import Count, Roles
from fedcore.controllers.base import Assignment, Controller, ControllerConfig, Report
from fedcore.typing import Seconds, State


class Usage(NamedTuple):
    """A client's memory of its link."""

    added: float = 0.0  # to the threshold
    used: int = 0  # bytes since the last message
    since: Seconds | None = None  # when that was sent; None: none was


class Gaia(ControllerConfig):
    """The uplink's threshold, so that a client keeps to its share of a link."""

    kind: Literal["gaia"] = "gaia"
    limit: Count
    """Bytes that a client may use in a second, both directions."""
    threshold: float = Field(default=0.01, gt=0)
    """T: that of the uplink."""
    step: float = Field(default=0.005, gt=0)
    """By how much it rises or falls."""
    most: float = Field(default=0.1, gt=0)
    """The highest threshold."""

    @classmethod
    def example(cls) -> "Gaia":
        """Returns settings for a slow link."""
        return cls(limit=1000)

    @model_validator(mode="after")
    def _can_rise(self) -> "Gaia":
        if self.most < self.threshold:
            raise ValueError(f"most {self.most} is below threshold {self.threshold}")
        return self

    def fits(self, roles: Roles) -> None:
        """Checks that the uplink has this threshold.

        Raises:
            ValueError: it has none, or another one.
        """
        uplink = roles.uplink
        inner = getattr(uplink, "inner", uplink)
        found = getattr(inner, "threshold", None)
        raised = inner.shorter(0.5)
        moves = found is not None and getattr(raised, "threshold", None) == 2 * found
        if uplink.holds == "nothing" or not moves or found != self.threshold:
            around = "" if inner is uplink else f" around {inner.kind}"
            name = uplink.kind + around
            raise ValueError(
                f"controllers: gaia raises a threshold of {self.threshold:g}, and "
                f"uplink {name} has "
                f"{'none' if found is None else format(found, 'g')}; take uplink: "
                "{kind: error_feedback, inner: {kind: gaia}} with the same threshold"
            )

    def build(self) -> Controller:
        """Returns the controller."""
        return Controller(Usage, self._observe, self._assign)

    def _observe(self, state: State, report: Report) -> Usage:
        usage = Usage(*state)
        usage = usage._replace(used=usage.used + report.nbytes)
        if report.upload_seconds is None:
            return usage
        added = usage.added
        if usage.since is not None and report.at > usage.since:
            rate = usage.used / (report.at - usage.since)
            if rate > 1.1 * self.limit:
                added += self.step
            elif rate < 0.9 * self.limit:
                added -= self.step
        added = min(self.most - self.threshold, max(0.0, added))
        return Usage(added, 0, report.at)

    def _assign(self, state: State) -> Assignment:
        usage = Usage(*state)  # a filter's threshold for a share of s is T / s
        return Assignment(density=self.threshold / (self.threshold + usage.added))
