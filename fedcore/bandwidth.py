"""How much a client may send: shorter messages on a slow link, and a daily budget.

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

from dataclasses import dataclass, replace

from pydantic import Field, model_validator

from fedcore.config import Config, Count, Duration
from fedcore.typing import Seconds

DAY: Seconds = 86_400.0
_BURST = 1 / 24  # of the day's budget may be used at once, as its first hour


@dataclass(frozen=True, slots=True)
class Link:
    """What a client remembers of its link."""

    share: float = 1.0
    day: int = 0  # since 1970
    used: int = 0  # bytes on that day, both directions
    patch: int = 0  # bytes of the last download, and so of the next one, more or less


NEW_LINK = Link()


class Bandwidth(Config):
    """How long an upload may take, and what a day may cost."""

    upload_time: Duration | None = None
    """Seconds that one upload may take on the client's own link."""
    daily: Count | None = None
    """Bytes that a client may use in a day, both directions; see above what counts."""
    least: float = Field(default=0.1, gt=0, le=1)
    """No message is made shorter than this share of its usual size."""

    @model_validator(mode="after")
    def _limits_something(self) -> "Bandwidth":
        if self.upload_time is None and self.daily is None:
            raise ValueError("limits nothing: set upload_time, daily or both")
        return self

    def rest(self, link: Link, nbytes: int, at: Seconds) -> Seconds:
        """How long to wait before so many bytes may be used."""
        used = _on(link, at).used
        if self.daily is None or used + nbytes <= self.daily:
            return 0.0
        if used <= _BURST * self.daily:  # it would not fit on any day
            return 0.0
        return DAY - at % DAY

    def used(self, link: Link, nbytes: int, at: Seconds) -> Link:
        """So many bytes have passed, in either direction."""
        today = _on(link, at)
        return replace(today, used=today.used + nbytes)

    def uploaded(self, link: Link, took: Seconds, at: Seconds) -> Link:
        """An upload took so long; the next one has another share."""
        today, factors = _on(link, at), [2.0]
        if self.upload_time is not None:
            factors.append(max(0.5, self.upload_time / max(took, 1e-9)))
        if self.daily is not None:
            plan = self.daily * max(_BURST, at % DAY / DAY)
            ahead, behind = today.used > plan, today.used < 0.9 * plan
            factors.append(0.8 if ahead else 1.25 if behind else 1.0)
        share = min(1.0, max(self.least, today.share * min(factors)))
        return replace(today, share=share)


def _on(link: Link, at: Seconds) -> Link:
    """The link on this day, of which nothing may have been used yet."""
    day = int(at // DAY)
    return link if day == link.day else replace(link, day=day, used=0)
