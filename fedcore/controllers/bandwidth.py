"""Limits the bytes of a client: shorter messages on a slow link, a daily budget.

Two controls, in the manner of Gaia's (Hsieh et al., NSDI 2017, §5.4), act on one
number, the share of its usual size that a message may have. Where an upload took longer
than ``upload_time`` the share falls by as much, at most by half; where there was time
left it rises by as much, at most to the double. Where a client is ahead of its plan for
the day, which is to use up ``daily`` evenly, the share falls by a fifth; where it is a
tenth behind, it rises by a quarter. An error memory keeps what a shorter message leaves
out.

The budget itself is kept whatever the share is: before a message that would exceed it
the client rests until midnight UTC. How large a download will be it knows only from the
last one, and a message may be larger than a whole day's budget. So a day may exceed its
budget by what a download has grown, and begin with one such message. The simulator
counts payloads, a client the gRPC messages around them as well; HTTP/2, TLS and TCP
come on top of that.
"""

from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from fedcore.config import Count, Duration, Method, Roles, kind_of, methods
from fedcore.controllers.base import Assignment, Controller, ControllerConfig, Report
from fedcore.typing import Seconds, State

DAY: Seconds = 86_400.0
_BURST = 1 / 24  # of the day's budget may be used at once, as its first hour


class Link(NamedTuple):
    """A client's memory of its link."""

    share: float = 1.0
    day: int = 0  # since 1970
    used: int = 0  # bytes on that day, both directions

    def on(self, at: Seconds) -> "Link":
        """Returns the link on this day, of which nothing may have been used yet."""
        day = int(at // DAY)
        return self if day == self.day else self._replace(day=day, used=0)


class Bandwidth(ControllerConfig):
    """Limits the time of an upload, and the bytes of a day."""

    kind: Literal["bandwidth"] = "bandwidth"
    upload_time: Duration | None = None
    """Seconds that one upload may take on the client's own link."""
    daily: Count | None = None
    """Bytes that a client may use in a day, both directions; see above what counts."""
    least: float = Field(default=0.1, gt=0, le=1)
    """No message is made shorter than this share of its usual size."""

    @classmethod
    def example(cls) -> "Bandwidth":
        """Returns settings with both limits."""
        return cls(upload_time=5, daily=2_000_000)

    @model_validator(mode="after")
    def _limits_something(self) -> "Bandwidth":
        if self.upload_time is None and self.daily is None:
            raise ValueError("limits nothing: set upload_time, daily or both")
        return self

    def fits(self, roles: Roles) -> None:
        """Checks that the uplink can send less, and keep the rest for later.

        Raises:
            ValueError: it cannot.
        """
        uplink, name = roles.uplink, roles.uplink.kind
        can_wait = uplink.holds != "nothing"
        if can_wait and uplink.shorter(1.0) is not None:
            return
        inner = getattr(uplink, "inner", None)
        if can_wait and inner is not None:
            name += f" around {inner.kind}"
        raise ValueError(
            f"controllers: bandwidth: uplink {name} cannot send less and keep the "
            f"rest; choose error_feedback around one of {', '.join(_shortening())}"
        )

    def build(self) -> Controller:
        """Returns the controller."""
        return Controller(Link, self._observe, _assign, self._rest)

    def _observe(self, state: State, report: Report) -> Link:
        link = Link(*state).on(report.at)
        link = link._replace(used=link.used + report.nbytes)
        if report.upload_seconds is None:
            return link
        factors = [2.0]
        if self.upload_time is not None:
            factors.append(
                max(0.5, self.upload_time / max(report.upload_seconds, 1e-9))
            )
        if self.daily is not None:
            plan = self.daily * max(_BURST, report.at % DAY / DAY)
            ahead, behind = link.used > plan, link.used < 0.9 * plan
            factors.append(0.8 if ahead else 1.25 if behind else 1.0)
        share = min(1.0, max(self.least, link.share * min(factors)))
        return link._replace(share=share)

    def _rest(self, state: State, nbytes: int, at: Seconds) -> Seconds:
        used = Link(*state).on(at).used
        if self.daily is None or used + nbytes <= self.daily:
            return 0.0
        if used <= _BURST * self.daily:  # it would not fit on any day
            return 0.0
        return DAY - at % DAY


def _assign(state: State) -> Assignment:
    return Assignment(density=Link(*state).share)


def _shortening() -> list[str]:
    """Returns the compressors without a memory that have shorter messages."""
    found = []
    for method in methods(Method):
        if method.role == "compressor":
            example: Any = method.example()
            if example.holds == "nothing" and example.shorter(1.0) is not None:
                found.append(kind_of(method))
    return sorted(found)
