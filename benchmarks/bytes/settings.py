"""What is compared: how updates and versions travel. The first one sets the measure."""

from dataclasses import dataclass, field
from typing import Any

Method = dict[str, Any]
IDENTITY: Method = {"kind": "identity"}


@dataclass(frozen=True, slots=True)
class Setting:
    """Compressors for both directions."""

    name: str
    uplink: Method = field(default_factory=lambda: IDENTITY)
    downlink: Method = field(default_factory=lambda: IDENTITY)


def remembered(**inner: Any) -> Method:
    """A compressor with an error memory."""
    return {"kind": "error_feedback", "inner": inner}


SETTINGS = (
    Setting("uncompressed"),
    Setting(
        "dead_zone 3/.1 %",
        remembered(kind="dead_zone", ratio=0.03),
        {"kind": "dead_zone", "ratio": 0.001},
    ),
    Setting(
        "dead_zone 1.5/.1 %",
        remembered(kind="dead_zone", ratio=0.015),
        {"kind": "dead_zone", "ratio": 0.001},
    ),
    Setting(
        "dead_zone 1/.1 %",
        remembered(kind="dead_zone", ratio=0.01),
        {"kind": "dead_zone", "ratio": 0.001},
    ),
    Setting(
        "dead_zone 1.5/.5 %",
        remembered(kind="dead_zone", ratio=0.015),
        {"kind": "dead_zone", "ratio": 0.005},
    ),
    Setting(
        "top_k 1/.2 %",
        remembered(kind="top_k", ratio=0.01),
        {"kind": "top_k", "ratio": 0.002},
    ),
    Setting(
        "stc 2/.2 %",
        remembered(kind="stc", ratio=0.02),
        {"kind": "stc", "ratio": 0.002},
    ),
    Setting(
        "stc 1/.1 %",
        remembered(kind="stc", ratio=0.01),
        {"kind": "stc", "ratio": 0.001},
    ),
)
